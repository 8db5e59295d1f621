"""The embedded DynamoDB Streams over HTTP, with boto3's own client."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from shardline.local import Clock, Service
from tests.integration.kinesis_calls import control as call_control

if TYPE_CHECKING:
    from collections.abc import Iterator

START = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(clock=Clock(START)) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Any:
    return service.client("dynamodbstreams", Config(retries={"total_max_attempts": 1}))


def control(service: Service, operation: str, **request: Any) -> dict[str, Any]:
    return call_control(service, f"dynamodb/{operation}", **request)


def drain(client: Any, arn: str, shard: str) -> list[dict[str, Any]]:
    """Read a shard until its end, or until an open one has no more."""
    opened = client.get_shard_iterator(
        StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )
    iterator, records = opened["ShardIterator"], []
    while iterator is not None:
        page = client.get_records(ShardIterator=iterator, Limit=7)
        records += page["Records"]
        iterator = page.get("NextShardIterator") if page["Records"] else None
    return records


@pytest.mark.req("C-19", "C-21", "C-24")
def test_boto3_reads_a_branching_stream_that_is_controlled_over_http(
    service: Service, client: Any
) -> None:
    made = control(service, "create_table", table="users", shards=2)
    arn, (left, right) = made["stream_arn"], made["shards"]
    keys = [f"key-{number}" for number in range(30)]

    def put_all(version: int) -> None:
        for key in keys:
            image = {"id": {"S": key}, "version": {"N": str(version)}}
            at = (START - timedelta(hours=version)).isoformat()
            control(service, "put_change", table="users", keys={"id": {"S": key}}, new=image, at=at)

    put_all(1)
    children = control(service, "split", table="users", shard=left)["children"]
    put_all(2)
    (grandchild,) = control(service, "roll", table="users", shard=children[0])["children"]
    put_all(3)

    (listed,) = client.list_streams(TableName="users")["Streams"]
    assert listed["StreamArn"] == arn
    description = client.describe_stream(StreamArn=arn)["StreamDescription"]
    parents = {shard["ShardId"]: shard.get("ParentShardId") for shard in description["Shards"]}
    assert parents == {
        left: None,
        right: None,
        children[0]: left,
        children[1]: left,
        grandchild: children[0],
    }
    still_open = {
        shard["ShardId"]
        for shard in description["Shards"]
        if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
    }
    assert still_open == {right, children[1], grandchild}

    versions: dict[str, list[tuple[str, str]]] = {key: [] for key in keys}
    for shard in parents:
        for record in drain(client, arn, shard):
            image = record["dynamodb"]["NewImage"]
            versions[image["id"]["S"]].append((shard, image["version"]["N"]))
            hours = timedelta(hours=int(image["version"]["N"]))
            assert record["dynamodb"]["ApproximateCreationDateTime"] == START - hours
    for way in versions.values():
        assert [version for _, version in way] == ["1", "2", "3"]
        assert [shard for shard, _ in way] in (
            [right] * 3,
            [left, children[1], children[1]],
            [left, children[0], grandchild],
        )


def test_errors_have_the_names_that_boto3_knows(service: Service, client: Any) -> None:
    made = service.tables.create_table("users")
    arn, shard = made.stream_arn, made.shards[0]
    keys = {"id": {"S": "a"}}
    number = service.tables.put_change("users", keys, new=keys).sequence_number
    opened = client.get_shard_iterator(
        StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.describe_stream(StreamArn=arn + "1")
    with pytest.raises(client.exceptions.LimitExceededException):
        client.get_records(ShardIterator=opened["ShardIterator"], Limit=1001)
    with pytest.raises(ClientError, match="ValidationException"):
        client.get_records(ShardIterator="nothing")
    service.clock.advance(15 * 60)
    with pytest.raises(client.exceptions.ExpiredIteratorException):
        client.get_records(ShardIterator=opened["ShardIterator"])
    service.clock.advance(24 * 3600)
    with pytest.raises(client.exceptions.TrimmedDataAccessException):
        client.get_shard_iterator(
            StreamArn=arn,
            ShardId=shard,
            ShardIteratorType="AFTER_SEQUENCE_NUMBER",
            SequenceNumber=number,
        )
    with pytest.raises(urllib.request.HTTPError) as refused:
        control(service, "split", table="nobody", shard=shard)
    assert "ResourceNotFoundException" in json.load(refused.value)["error"]


def test_faults_meet_the_calls_of_one_shard(service: Service, client: Any) -> None:
    made = service.tables.create_table("users", shards=2)

    def open_shard(shard: str) -> Any:
        return client.get_shard_iterator(
            StreamArn=made.stream_arn, ShardId=shard, ShardIteratorType="LATEST"
        )

    service.faults.add("throttle", "GetShardIterator", shard_id=made.shards[1])
    open_shard(made.shards[0])
    with pytest.raises(ClientError, match="ThrottlingException"):
        open_shard(made.shards[1])
    assert open_shard(made.shards[1])["ShardIterator"]


def test_binary_values_of_python_callers_arrive_as_bytes(service: Service, client: Any) -> None:
    made = service.tables.create_table("users")
    keys = {"id": {"B": b"\x00\xff"}}
    service.tables.put_change("users", keys, new=keys)
    (record,) = drain(client, made.stream_arn, made.shards[0])
    assert record["dynamodb"]["Keys"] == keys
