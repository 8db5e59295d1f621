"""What can be asked of the formats, and the one line that answers a mistake."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.types import StructType

from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import ConfigurationError
from shardline.spark.driver.source import DynamoDBStreamsSource, KinesisSource
from shardline.spark.option_names import DYNAMODB_STREAMS, KINESIS
from shardline.spark.options import read_options

ORDERS = {"streamName": "orders"}


def test_a_name_is_enough() -> None:
    options = read_options(KINESIS, ORDERS)
    assert [each.address for each in options.connections] == ["kinesis://orders"]
    assert options.start == LATEST
    assert options.fail_on_data_loss
    assert options.deaggregate


def test_the_wire_is_one_that_is_spoken() -> None:
    assert read_options(KINESIS, ORDERS).connections[0].wire == "json"
    assert read_options(KINESIS, ORDERS | {"wire": "CBOR"}).connections[0].wire == "cbor"
    with pytest.raises(ConfigurationError, match=r"wire.*neither json nor cbor"):
        read_options(KINESIS, ORDERS | {"wire": "xml"})
    with pytest.raises(ConfigurationError, match="no option wire"):
        read_options(DYNAMODB_STREAMS, {"tableName": "users", "wire": "cbor"})


def test_case_and_prefix_do_not_matter() -> None:
    given = {"STREAMNAME": "orders", "kinesis.startingposition": "TRIM_HORIZON"}
    options = read_options(KINESIS, given)
    assert options.start == TRIM_HORIZON
    assert read_options(DYNAMODB_STREAMS, {"tablename": "users"}).connections[0].address == (
        "dynamodb://users"
    )


def test_a_time_needs_its_zone() -> None:
    options = read_options(KINESIS, ORDERS | {"startingPosition": "2026-11-15T12:00:00Z"})
    assert options.start == AtTime(datetime(2026, 11, 15, 12, tzinfo=UTC))
    with pytest.raises(ConfigurationError, match=r"startingPosition.*no time zone"):
        read_options(KINESIS, ORDERS | {"startingPosition": "2026-11-15T12:00:00"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("endingPosition", "latest"),
        ("endingPosition", "2026-11-15T12:00:00Z"),
        ("shardId", "shardId-0"),
    ],
)
def test_an_end_is_for_a_bounded_read_alone(name: str, value: str) -> None:
    kinesis = KinesisSource({**ORDERS, name: value})
    table = DynamoDBStreamsSource({"tableName": "users", name: value})
    for source in (kinesis, table):
        query = source.streamReader(StructType())
        with pytest.raises(ConfigurationError, match=rf"{name} is for spark\.read,"):
            query.latestOffset(query.initialOffset(), query.getDefaultReadLimit())
        source.reader(StructType())
    KinesisSource(dict(ORDERS)).streamReader(StructType())


def test_a_token_of_a_stream_is_a_start() -> None:
    stands_here = (
        '{"created_at":"2026-11-15T12:00:00+00:00","drained":["shardId-0"],"shardline":"token",'
        '"shards":[{"id":"shardId-1","position":{"after":"42"}}],"start":"trim_horizon",'
        '"stream":"arn:aws:kinesis:us-east-1:000000000000:stream/orders","version":1}'
    )
    resume = read_options(KINESIS, ORDERS | {"startingPosition": stands_here}).resume
    assert resume is not None
    assert resume.ranges["shardId-1"].upto == After(SequenceNumber("42"))
    assert set(resume.drained) == {"shardId-0"}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "say what to read: .*streamName"),
        ({"streamName": "a", "streamARN": "b"}, "not both"),
        ({"streamName": "a,,b"}, "streamName: write each stream once"),
        ({"streamName": "a,b,a"}, "streamName: write each stream once"),
        ({"streamName": "a,b", "startingPosition": '{"shardline": "token"}'}, "is of one stream"),
        ({"streamName": "a,b", "maxRecordsPerBatch": "1"}, "less than one record of each"),
        (ORDERS | {"order": "some"}, "order: 'some' is neither shard nor total"),
        (ORDERS | {"statringPosition": "latest"}, "did you mean startingPosition"),
        (ORDERS | {"appName": "a"}, "use `shardline run`"),
        (ORDERS | {"initialPosition": "latest", "startingPosition": "earliest"}, "given twice"),
        (ORDERS | {"maxBytesPerBatch": "much"}, "maxBytesPerBatch.*no size"),
        (ORDERS | {"maxTriggerDelay": "soon"}, "maxTriggerDelay.*no time span"),
        (ORDERS | {"startingPosition": "yesterday"}, "'yesterday' is no position"),
        (ORDERS | {"startingPosition": '{"a": 1}'}, "not a token of shardline"),
        (ORDERS | {"maxRecordsPerBatch": "0"}, "maxRecordsPerBatch.*above 0"),
        (ORDERS | {"failOnDataLoss": "maybe"}, "neither true nor false"),
        (ORDERS | {"consumerType": "efo"}, "enhanced fan-out is not supported"),
        (ORDERS | {"qwerty": "1"}, "known are .*streamName"),
    ],
)
def test_a_mistake_is_one_line(given: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigurationError, match=line) as error:
        read_options(KINESIS, given)
    assert "\n" not in str(error.value)


NOON = AtTime(datetime(2026, 11, 15, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "position"),
    [
        ("earliest", TRIM_HORIZON),
        ("AT_TIMESTAMP 2026-11-15T12:00:00Z", NOON),
        ('{"at_timestamp": "2026-11-15T12:00:00Z"}', NOON),
    ],
)
def test_positions_are_read_as_other_sources_write_them(value: str, position: object) -> None:
    assert read_options(KINESIS, ORDERS | {"initialPosition": value}).start == position


def test_the_names_of_other_sources_mean_the_same_here() -> None:
    databricks = {"streamName": "orders", "roleExternalId": "x", "maxFetchRate": "1.0"}
    awslabs = {
        "kinesis.streamName": "orders",
        "kinesis.endpointUrl": "http://127.0.0.1:4567",
        "kinesis.consumerType": "GetRecords",
        "kinesis.maxFetchRecordsPerShard": "500",
        "kinesis.stsRoleArn": "arn:aws:iam::1:role/r",
    }
    glue = {"streamARN": "arn:aws:kinesis:eu-west-1:1:stream/orders", "awsSTSRoleARN": "arn:r"}
    assert read_options(KINESIS, databricks).connections[0].access.external_id == "x"
    options = read_options(KINESIS, awslabs)
    assert options.max_records_per_shard == 500
    assert options.connections[0].access.role_arn == "arn:aws:iam::1:role/r"
    assert read_options(KINESIS, glue).connections[0].access.role_arn == "arn:r"


def test_sizes_and_time_spans_are_written_as_in_spark() -> None:
    given = ORDERS | {"maxBytesPerBatch": "64m", "maxTriggerDelay": "15m"}
    options = read_options(KINESIS, given | {"minRecordsPerBatch": "10"})
    assert options.max_bytes_per_batch == 64 * 1024 * 1024
    assert (options.min_records_per_batch, options.max_trigger_delay_seconds) == (10, 900)


def test_several_streams_share_the_limits_of_a_batch() -> None:
    given = {"streamName": "a, b", "maxBytesPerBatch": "64m", "minRecordsPerBatch": "5"}
    options = read_options(KINESIS, given)
    assert [each.name for each in options.connections] == ["a", "b"]
    settings = options.settings(finds_times=True)
    assert (settings.max_bytes, settings.min_records) == (32 * 1024 * 1024, 3)
    arn = "arn:aws:dynamodb:eu-west-1:1:table/users/stream/1"
    assert read_options(DYNAMODB_STREAMS, {"streamARN": arn}).connections[0].name == arn


def test_order_is_by_shard_unless_total_is_asked_for() -> None:
    assert not read_options(KINESIS, ORDERS).total_order
    assert read_options(DYNAMODB_STREAMS, {"tableName": "users", "order": "Total"}).total_order


def test_a_secret_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="awsSecretKey is refused") as error:
        read_options(KINESIS, ORDERS | {"awsSecretKey": "hush"})
    assert "hush" not in str(error.value)
