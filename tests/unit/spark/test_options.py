"""What can be asked of the formats, and the one line that answers a mistake."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.types import StructType

from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import ConfigurationError
from shardline.spark.driver.source import DynamoDBStreamsSource, KinesisSource
from shardline.spark.options import DYNAMODB_STREAMS, KINESIS, read_options

ORDERS = {"streamName": "orders"}


def test_a_name_is_enough() -> None:
    options = read_options(KINESIS, ORDERS)
    assert options.connection.address == "kinesis://orders"
    assert options.start == LATEST
    assert options.fail_on_data_loss
    assert options.deaggregate


def test_the_wire_is_one_that_is_spoken() -> None:
    assert read_options(KINESIS, ORDERS).connection.wire == "json"
    assert read_options(KINESIS, ORDERS | {"wire": "CBOR"}).connection.wire == "cbor"
    with pytest.raises(ConfigurationError, match=r"wire.*neither json nor cbor"):
        read_options(KINESIS, ORDERS | {"wire": "xml"})
    with pytest.raises(ConfigurationError, match="no option wire"):
        read_options(DYNAMODB_STREAMS, {"tableName": "users", "wire": "cbor"})


def test_case_and_prefix_do_not_matter() -> None:
    given = {"STREAMNAME": "orders", "kinesis.startingposition": "TRIM_HORIZON"}
    options = read_options(KINESIS, given)
    assert options.start == TRIM_HORIZON
    assert read_options(DYNAMODB_STREAMS, {"tablename": "users"}).connection.address == (
        "dynamodb://users"
    )


def test_a_time_needs_its_zone() -> None:
    options = read_options(KINESIS, ORDERS | {"startingPosition": "2026-11-15T12:00:00Z"})
    assert options.start == AtTime(datetime(2026, 11, 15, 12, tzinfo=UTC))
    with pytest.raises(ConfigurationError, match=r"startingPosition.*no time zone"):
        read_options(KINESIS, ORDERS | {"startingPosition": "2026-11-15T12:00:00"})


@pytest.mark.parametrize("end", ["latest", "2026-11-15T12:00:00Z"])
def test_an_end_is_for_a_bounded_read_alone(end: str) -> None:
    kinesis = KinesisSource({**ORDERS, "endingPosition": end})
    table = DynamoDBStreamsSource({"tableName": "users", "endingPosition": end})
    for source in (kinesis, table):
        query = source.streamReader(StructType())
        with pytest.raises(ConfigurationError, match=r"endingPosition is for spark\.read,"):
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
        ({"streamName": "a,b"}, "one query reads one stream"),
        (ORDERS | {"statringPosition": "latest"}, "did you mean startingPosition"),
        (ORDERS | {"initialPosition": "latest"}, "did you mean startingPosition"),
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


def test_a_secret_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="awsSecretKey is refused") as error:
        read_options(KINESIS, ORDERS | {"awsSecretKey": "hush"})
    assert "hush" not in str(error.value)
