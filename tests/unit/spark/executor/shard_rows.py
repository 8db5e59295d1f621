"""Rows of shards as a task gets them, made by hand and fenced by the real code."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from shardline.core.offsets import Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.spark.executor.columns import arrow_schema
from shardline.spark.executor.fencing import fenced
from shardline.spark.executor.reader import ShardRange
from shardline.spark.options import KINESIS

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = arrow_schema(KINESIS)
ARRIVED = datetime(2026, 11, 15, 12, tzinfo=UTC)


def page(shard_id: str, numbers: Sequence[int]) -> pa.RecordBatch:
    """Return records of one shard, in which the data tells the number."""
    rows = [
        {
            "partitionKey": f"key-{number % 3}",
            "data": b"%d" % number,
            "stream": "orders",
            "shardId": shard_id,
            "sequenceNumber": str(number),
            "subSequenceNumber": 0,
            "approximateArrivalTimestamp": ARRIVED,
        }
        for number in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def shard_range(
    shard_id: str,
    numbers: Sequence[int],
    *,
    epoch: int = 1,
    begins: bool = False,
    ends: bool = False,
) -> ShardRange:
    """Return a range that holds these records."""
    upto = SHARD_END if ends else After(SequenceNumber(str(numbers[-1])))
    return ShardRange(shard_id, Range(TRIM_HORIZON, upto, None, epoch), begins)


def task_rows(
    pages: Sequence[tuple[str, Sequence[int]]], ranges: Sequence[ShardRange]
) -> list[pa.RecordBatch]:
    """Return what a task's sink is given for some pages of some ranges."""
    return list(fenced(((i, page(i, numbers)) for i, numbers in pages), ranges, SCHEMA))
