"""The rows that a sink gets beyond the records: epochs, and the beginning and end of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.spark.executor.columns import arrow_schema
from shardline.spark.executor.fencing import EPOCH, EVENT, fenced, fenced_schema
from shardline.spark.options import DYNAMODB_STREAMS
from tests.unit.spark.executor.shard_rows import SCHEMA, shard_range, task_rows

if TYPE_CHECKING:
    import pyarrow as pa


@pytest.mark.req("K-26", "K-34")
def test_events_stand_around_the_records_of_their_shard() -> None:
    ranges = [
        shard_range("a", [1, 2, 3], epoch=4, begins=True),
        shard_range("b", [7], epoch=9, begins=True, ends=True),
        shard_range("c", [], epoch=2, ends=True),
    ]
    batches = task_rows([("a", [1, 2]), ("a", [3]), ("b", [7])], ranges)
    assert all(batch.schema == fenced_schema(SCHEMA) for batch in batches)
    told = [
        (row["shardId"], row[EPOCH], row[EVENT] or int(row["sequenceNumber"]))
        for batch in batches
        for row in batch.to_pylist()
    ]
    assert told == [
        ("a", 4, "started"), ("a", 4, 1), ("a", 4, 2), ("a", 4, 3),
        ("b", 9, "started"), ("b", 9, 7), ("b", 9, "ended"),
        ("c", 2, "ended"),
    ]  # fmt: skip


@pytest.mark.case("L-07")
def test_an_empty_shard_still_ends() -> None:
    (only,) = task_rows([], [shard_range("a", [], ends=True)])
    assert only.to_pylist()[0][EVENT] == "ended"


@pytest.mark.parametrize("schema", [SCHEMA, arrow_schema(DYNAMODB_STREAMS)], ids=["kinesis", "ddb"])
def test_an_event_fits_the_columns_of_every_format(schema: pa.Schema) -> None:
    item = shard_range("a", [], begins=True, ends=True)
    started, ended = fenced((), [item], schema)
    for event in (started, ended):
        event.validate(full=True)
        assert event.num_rows == 1
