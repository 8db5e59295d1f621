"""The columns that Spark sees."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from shardline.services.wire.columns import KINESIS_COLUMNS
from shardline.spark.executor.columns import (
    DYNAMODB_NAMES,
    KINESIS_NAMES,
    arrow_schema,
    spark_schema,
    with_origin,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "columns"), [("kinesis", KINESIS_NAMES), ("dynamodb-streams", DYNAMODB_NAMES)]
)
def test_both_schemas_of_a_format_have_its_columns_in_the_order_that_users_see(
    name: str, columns: tuple[str, ...]
) -> None:
    assert tuple(arrow_schema(name).names) == columns
    assert tuple(spark_schema(name).names) == columns


def page(**added: pa.Array) -> pa.RecordBatch:
    values = {"partitionKey": "k", "data": b"d", "sequenceNumber": "49", "subSequenceNumber": None}
    columns = {
        field.name: pa.array([values.get(field.name, NOON)], field.type)
        for field in KINESIS_COLUMNS
    }
    return pa.RecordBatch.from_pydict(columns | added)


def test_a_record_of_a_page_gets_its_stream_and_its_shard_and_the_sub_sequence_0() -> None:
    rows = with_origin(page(), arrow_schema("kinesis"), stream="orders", shard_id="shard-7")
    assert rows.schema == arrow_schema("kinesis")
    row = rows.to_pylist()[0]
    assert (row["stream"], row["shardId"], row["subSequenceNumber"]) == ("orders", "shard-7", 0)
    assert (row["partitionKey"], row["data"], row["sequenceNumber"]) == ("k", b"d", "49")


@pytest.mark.parametrize(("given", "seen"), [(3, 3), (None, 0)])
def test_a_record_that_was_taken_apart_keeps_its_sub_sequence(given: int | None, seen: int) -> None:
    apart = page(subSequenceNumber=pa.array([given], pa.int64()))
    rows = with_origin(apart, arrow_schema("kinesis"), stream="orders", shard_id="shard-7")
    assert rows.column("subSequenceNumber").to_pylist() == [seen]
