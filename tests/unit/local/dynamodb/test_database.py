"""Changes reach items, stream and journal together, and a replay makes the same ones."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from shardline.local.clock import Clock
from shardline.local.dynamodb.database import Database
from shardline.local.dynamodb.operations import DynamoDBBackend
from shardline.local.dynamodb_streams.control import Tables
from shardline.local.dynamodb_streams.operations import DynamoDBStreamsBackend
from shardline.local.refusals import Refusal
from shardline.local.settings import Settings

START = datetime(2026, 11, 15, 12, tzinfo=UTC)


class World:
    """A database with its streams and a clock that moves when told."""

    def __init__(self) -> None:
        self.clock = Clock(START)
        self.streams = Tables(self.clock)
        self.database = Database(self.streams, Settings())
        self.journal: list[tuple[int, bytes]] = []
        self.database.on_change = lambda now_ms, change: self.journal.append(
            (now_ms, msgspec.msgpack.encode(change))
        )
        self._tables = DynamoDBBackend(self.database)
        self._streams = DynamoDBStreamsBackend(self.streams)

    def call(self, operation: str, **request: Any) -> Any:
        return json.loads(self._tables.call(operation, request, self.clock.now_ms()))

    def create(self, name: str = "users", view_type: str | None = "NEW_AND_OLD_IMAGES") -> None:
        stream = {"StreamEnabled": True, "StreamViewType": view_type}
        self.call(
            "CreateTable",
            TableName=name,
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
            **({"StreamSpecification": stream} if view_type else {}),
        )

    def put(self, name: str, **others: Any) -> None:
        self.call("PutItem", TableName="users", Item={"id": {"S": name}, **others})

    def changes(self) -> list[Any]:
        """Return every change of every stream, as a client reads it."""
        now_ms = self.clock.now_ms()

        def ask(operation: str, **request: Any) -> Any:
            return json.loads(self._streams.call(operation, request, now_ms))

        found: list[Any] = []
        for stream in ask("ListStreams")["Streams"]:
            arn = stream["StreamArn"]
            for shard in ask("DescribeStream", StreamArn=arn)["StreamDescription"]["Shards"]:
                iterator = ask(
                    "GetShardIterator",
                    StreamArn=arn,
                    ShardId=shard["ShardId"],
                    ShardIteratorType="TRIM_HORIZON",
                )["ShardIterator"]
                found += ask("GetRecords", ShardIterator=iterator)["Records"]
        return found

    def items(self, name: str = "users") -> list[Any]:
        return list(self.call("Scan", TableName=name)["Items"])


def test_an_item_expires_by_the_service_and_its_stream_says_so() -> None:
    world = World()
    world.create()
    now = int(START.timestamp())
    world.put("soon", expires={"N": str(now + 60)})
    world.put("later", expires={"N": str(now + 7200)})
    world.call(
        "UpdateTimeToLive",
        TableName="users",
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"},
    )
    world.put("third", expires={"N": str(now + 30)})
    world.clock.advance(59)
    assert len(world.items()) == 2
    world.clock.advance(1)
    last = world.changes()[-1]  # reading the stream is enough for an item to expire
    assert last["eventName"] == "REMOVE"
    assert last["dynamodb"]["OldImage"]["id"] == {"S": "soon"}
    assert last["userIdentity"] == {
        "Type": "Service",
        "PrincipalId": "dynamodb.amazonaws.com",
    }
    assert [item["id"]["S"] for item in world.items()] == ["later"]


def test_a_replay_makes_the_same_items_numbers_and_streams() -> None:
    world = World()
    rng = random.Random(7)
    world.create()
    for turn in range(120):
        world.clock.advance(1)
        name = f"{rng.randrange(12)}"
        match rng.randrange(5):
            case 0:
                world.call("DeleteItem", TableName="users", Key={"id": {"S": name}})
            case 1:
                world.call(
                    "UpdateItem",
                    TableName="users",
                    Key={"id": {"S": name}},
                    UpdateExpression="ADD v :one",
                    ExpressionAttributeValues={":one": {"N": "1"}},
                )
            case _:
                world.put(name, w={"N": str(turn)}, expires={"N": str(rng.randrange(2**31))})
        if turn == 40:
            off = {"StreamEnabled": False}
            world.call("UpdateTable", TableName="users", StreamSpecification=off)
        if turn == 60:
            on = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
            world.call("UpdateTable", TableName="users", StreamSpecification=on)
    again = World()
    for at_ms, change in world.journal:
        again.clock.advance(max(0, at_ms - again.clock.now_ms()) / 1000)
        again.database.replay(msgspec.msgpack.decode(change), at_ms)
    assert again.journal == []  # a replay is not noted again
    again.clock.advance((world.clock.now_ms() - again.clock.now_ms()) / 1000)
    assert again.items() == world.items()
    assert again.changes() == world.changes()
    described = [each.call("DescribeTable", TableName="users") for each in (world, again)]
    assert described[0] == described[1]


def test_a_table_is_creating_and_deleting_for_as_long_as_it_is_told() -> None:
    world = World()
    world.database.settings.status_delay_ms = 500
    world.create(view_type=None)

    def status() -> str:
        return str(world.call("DescribeTable", TableName="users")["Table"]["TableStatus"])

    assert status() == "CREATING"
    with pytest.raises(Refusal, match="Requested resource not found"):
        world.put("a")
    with pytest.raises(Refusal, match="ResourceInUseException"):
        world.call("DeleteTable", TableName="users")
    world.clock.advance(0.5)
    assert status() == "ACTIVE"
    world.call("DeleteTable", TableName="users")
    assert status() == "DELETING"
    world.clock.advance(0.5)
    with pytest.raises(Refusal, match="ResourceNotFoundException"):
        status()
    assert world.call("ListTables")["TableNames"] == []


def test_a_transaction_that_cannot_be_stored_leaves_no_trace() -> None:
    world = World()
    world.create()
    before = len(world.journal)
    big = {"id": {"S": "big"}, "v": {"S": "x" * 410 * 1024}}
    small = {"id": {"S": "small"}}
    with pytest.raises(Refusal, match="Item size"):
        world.call(
            "TransactWriteItems",
            TransactItems=[{"Put": {"TableName": "users", "Item": each}} for each in (small, big)],
        )
    assert (world.items(), world.changes(), len(world.journal)) == ([], [], before)


def test_what_is_not_supported_is_said_plainly() -> None:
    world = World()
    world.create()
    with pytest.raises(Refusal, match=r"legacy parameters \{Expected\}: use expressions"):
        world.call("PutItem", TableName="users", Item={"id": {"S": "a"}}, Expected={})
    with pytest.raises(Refusal, match="does not support ExecuteStatement"):
        world.call("ExecuteStatement", Statement="SELECT 1")
