"""The records that users see, made from pages."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from shardline.services.aggregation import split_aggregated
from shardline.services.records import DynamoDBRecord, KinesisRecord, records_of, times_of
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS
from tests.unit.services.kpl import UserRecord, aggregate

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_a_page_of_kinesis_becomes_records_with_or_without_user_records() -> None:
    aggregated = aggregate([UserRecord("a", b"1"), UserRecord("b", b"2")])
    page = pa.RecordBatch.from_pylist(
        [
            {
                "partitionKey": "k",
                "data": data,
                "sequenceNumber": number,
                "approximateArrivalTimestamp": NOON,
            }
            for number, data in (("7", b"plain"), ("8", aggregated))
        ],
        schema=KINESIS_COLUMNS,
    )
    whole = records_of("s", page, times_of(page))
    microseconds = int(NOON.timestamp() * 1e6)
    assert whole == [
        KinesisRecord("s", "7", microseconds, "k", b"plain"),
        KinesisRecord("s", "8", microseconds, "k", aggregated),
    ]
    split = split_aggregated(page)
    assert records_of("s", split, times_of(split)) == [
        KinesisRecord("s", "7", microseconds, "k", b"plain", None),
        KinesisRecord("s", "8", microseconds, "a", b"1", 0),
        KinesisRecord("s", "8", microseconds, "b", b"2", 1),
    ]
    assert whole[0].arrived_at == NOON


def test_a_page_of_dynamodb_becomes_changes() -> None:
    row = {
        "eventID": "1",
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "keys": '{"id":{"S":"a"}}',
        "newImage": '{"n":{"N":"1"}}',
        "sequenceNumber": "7",
        "approximateCreationDateTime": NOON,
        "sizeBytes": 5,
    }
    page = pa.RecordBatch.from_pylist([row], schema=DYNAMODB_COLUMNS)
    [record] = records_of("s", page, times_of(page))
    assert isinstance(record, DynamoDBRecord)
    assert record.keys == {"id": {"S": "a"}}
    assert record.new == {"n": {"N": "1"}}
    assert record.old is None
    assert record.user_identity is None
