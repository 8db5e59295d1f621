"""The rows of a task, in the columns of the format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from shardline.core.offsets import Range
from shardline.core.positions import TRIM_HORIZON, After
from shardline.core.shards import HashRange, SequenceNumber
from shardline.spark.driver.inline_records import pack
from shardline.spark.executor.columns import arrow_schema
from shardline.spark.executor.range_reader import ShardRange
from shardline.spark.executor.rows import TaskRanges, rows_of
from shardline.spark.options import Options, read_options
from tests.twins.kinesis import KinesisTwin
from tests.unit.services.kpl import UserRecord, aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARD = "shardId-000000000000"


def options(**given: str) -> Options:
    return read_options("kinesis", {"streamName": "orders", "region": "eu-west-1"} | given)


def carried(*data: bytes) -> ShardRange:
    """Return a range whose records travel with it."""
    twin = KinesisTwin(1)
    for each in data:
        twin.put("key", each)
    page = twin.read(twin.open(SHARD, TRIM_HORIZON), 100).records
    upto = After(SequenceNumber(page.column("sequenceNumber")[-1].as_py()))
    return ShardRange(SHARD, Range(TRIM_HORIZON, upto), pack([page]))


def rows(chosen: Options, *ranges: ShardRange) -> list[dict[str, object]]:
    task = TaskRanges(chosen.connections[0], ranges)
    batches: Iterator[pa.RecordBatch] = rows_of(chosen, task)
    found: list[dict[str, object]] = pa.Table.from_batches(
        batches, arrow_schema("kinesis")
    ).to_pylist()
    return found


def test_rows_name_their_stream_and_shard() -> None:
    (row,) = rows(options(), carried(b"one"))
    assert (row["data"], row["stream"], row["shardId"]) == (b"one", "orders", SHARD)
    assert row["partitionKey"] == "key"


def test_a_task_without_ranges_has_no_rows() -> None:
    assert rows(options()) == []


@pytest.mark.case("X-26")
def test_aggregated_records_are_taken_apart_unless_that_is_switched_off() -> None:
    packed = carried(aggregate([UserRecord("a", b"1"), UserRecord("b", b"2")]))
    found = rows(options(), packed)
    assert [(row["partitionKey"], row["data"]) for row in found] == [("a", b"1"), ("b", b"2")]
    assert [row["subSequenceNumber"] for row in found] == [0, 1]
    assert len(rows(options(deaggregate="false"), packed)) == 1


@pytest.mark.case("X-13")
def test_strays_are_dropped_by_choice() -> None:
    packed = replace(
        carried(aggregate([UserRecord("a", b"1"), UserRecord("b", b"2")])),
        hash_range=HashRange(0, 1),
    )
    assert len(rows(options(), packed)) == 2
    assert rows(options(strayRecords="drop"), packed) == []


def test_a_partition_of_another_source_is_refused() -> None:
    with pytest.raises(TypeError, match="not a partition"):
        list(rows_of(options(), InputPartition(0)))
