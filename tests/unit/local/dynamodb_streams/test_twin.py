"""The in-memory twin of a table's stream speaks the port as an adapter does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import (
    InvalidPosition,
    IteratorExpired,
    PositionTrimmed,
    ServiceError,
    ShardNotFound,
    StreamNotFound,
)
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.wire.columns import DYNAMODB_COLUMNS
from tests.twins.dynamodb_streams import DynamoDBTwin

if TYPE_CHECKING:
    from shardline.services.port import StreamService

START = datetime(2026, 11, 15, tzinfo=UTC)


class Twin:
    """A table, its twin and their clock."""

    def __init__(self) -> None:
        self.clock = Clock(START)
        self.tables = Tables(self.clock)
        created = self.tables.create_table("users")
        self.root = created.shards[0]
        self.service: StreamService = DynamoDBTwin(self.tables, "users")

    def put(self, key: str) -> SequenceNumber:
        keys = {"id": {"S": key}}
        put = self.tables.put_change("users", keys, new=keys)
        return SequenceNumber(put.sequence_number)


def test_a_page_has_the_columns_of_the_port_and_the_service_time() -> None:
    twin = Twin()
    number = twin.put("a")
    twin.clock.advance(seconds=5)
    page = twin.service.read(twin.service.open(twin.root, TRIM_HORIZON), 10_000)
    assert page.records.schema == DYNAMODB_COLUMNS
    (row,) = page.records.to_pylist()
    assert len(row.pop("eventID")) == 32
    assert row == {
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "keys": '{"id":{"S":"a"}}',
        "oldImage": None,
        "newImage": '{"id":{"S":"a"}}',
        "sequenceNumber": number.text,
        "approximateCreationDateTime": START,
        "sizeBytes": 6,
        "userIdentity": None,
    }
    assert page.service_time == START + timedelta(seconds=5)
    assert page.next_iterator is not None


def test_positions_open_where_they_say_and_the_end_of_a_closed_shard_is_none() -> None:
    twin = Twin()
    numbers = [twin.put(key) for key in "abc"]
    service = twin.service
    latest = service.open(twin.root, LATEST)

    def keys(iterator: str) -> list[str]:
        return [
            json.loads(row["keys"])["id"]["S"]
            for row in service.read(iterator, 10).records.to_pylist()
        ]

    assert keys(service.open(twin.root, After(numbers[0]))) == ["b", "c"]
    assert keys(service.open(twin.root, After(numbers[1], 0))) == ["b", "c"]
    assert keys(latest) == []
    children = tuple(twin.tables.split("users", twin.root).children)
    assert service.read(latest, 10).next_iterator is None
    parent, *born = service.list_shards()
    assert parent.closed
    assert parent.first is not None
    assert parent.last is not None
    assert parent.first < numbers[0] < parent.last
    assert tuple(shard.id for shard in born) == children
    assert {shard.parents for shard in born} == {(twin.root,)}
    assert not any(shard.closed for shard in born)


def test_refusals_become_errors_of_the_port() -> None:
    twin = Twin()
    number = twin.put("a")
    service = twin.service
    old = service.open(twin.root, TRIM_HORIZON)
    for position in (SHARD_END, AtTime(START)):
        with pytest.raises(InvalidPosition):
            service.open(twin.root, position)
    with pytest.raises(ServiceError, match="Invalid SequenceNumber"):
        service.open(twin.root, After(SequenceNumber("9" * 21)))
    with pytest.raises(ShardNotFound):
        service.open("shardId-unknown", LATEST)
    twin.clock.advance(seconds=15 * 60)
    with pytest.raises(IteratorExpired):
        service.read(old, 10)
    twin.clock.advance(seconds=24 * 3600)
    with pytest.raises(PositionTrimmed):
        service.open(twin.root, After(number))
    assert service.has_shard(twin.root)
    twin.tables.split("users", twin.root)
    twin.clock.advance(seconds=24 * 3600)
    assert not service.has_shard(twin.root)
    twin.tables.delete_stream("users")
    for act in (service.describe, service.list_shards):
        with pytest.raises(StreamNotFound):
            act()
    with pytest.raises(StreamNotFound):
        DynamoDBTwin(twin.tables, "users")


@pytest.mark.case("L-18")
def test_a_stream_made_again_under_its_name_differs_in_its_creation_time() -> None:
    twin = Twin()
    first = twin.service.describe()
    assert (first.name, first.active, first.retention_seconds) == ("users", True, 86_400)
    twin.tables.disable_stream("users")
    assert twin.service.describe().active, "it can still be read"
    twin.clock.advance(seconds=1)
    twin.tables.create_table("users")
    second = DynamoDBTwin(twin.tables, "users").describe()
    assert (second.created_at - first.created_at, second.name) == (timedelta(seconds=1), "users")
    assert second.arn != first.arn
