"""What a consumer's sink needs beyond the records: the epoch of each, and what befell its shard.

A shard's beginning and its end travel as rows of their own among its records, so that the sink
hears of them in the task that delivers the records, and in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shardline.spark.executor.reader import ShardRange

EPOCH: Final = "epoch"
EVENT: Final = "shardEvent"
STARTED: Final = "started"
ENDED: Final = "ended"


def fenced_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns with those of the fence behind them."""
    return schema.append(pa.field(EPOCH, pa.int64(), nullable=False)).append(
        pa.field(EVENT, pa.string())
    )


def fenced(
    rows: Iterable[tuple[str, pa.RecordBatch]], ranges: Sequence[ShardRange], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Add the fence to rows that come in the order of the ranges, and the shards' own events."""
    target = fenced_schema(schema)
    coming = iter(rows)
    row: tuple[str, pa.RecordBatch] | None = None
    for item in ranges:
        epoch = item.range.epoch
        if item.begins:
            yield _event(target, item.shard_id, epoch, STARTED)
        row = row or next(coming, None)
        while row is not None and row[0] == item.shard_id:
            count = row[1].num_rows
            fence = [pa.repeat(pa.scalar(epoch, pa.int64()), count), pa.nulls(count, pa.string())]
            yield pa.RecordBatch.from_arrays([*row[1].columns, *fence], schema=target)
            row = next(coming, None)
        if item.range.ends:
            yield _event(target, item.shard_id, epoch, ENDED)


def _event(schema: pa.Schema, shard_id: str, epoch: int, event: str) -> pa.RecordBatch:
    """Return one row that is no record: the columns of a record hold nothing."""
    values = {"shardId": shard_id, EPOCH: epoch, EVENT: event}
    arrays = [
        pa.array([values[field.name]], field.type) if field.name in values else _nothing(field)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _nothing(field: pa.Field) -> pa.Array:
    if field.nullable:
        return pa.nulls(1, field.type)
    if pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type):
        return pa.array([0], pa.int64()).cast(field.type)
    return pa.array([b""], pa.binary()).cast(field.type)
