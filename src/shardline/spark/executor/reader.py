"""Reads planned ranges on the executors: exactly their records, in order, as Arrow batches."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from shardline.consumer.logs import log_to_stderr
from shardline.core.positions import TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import GapError, PositionTrimmed, ServiceError
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor
from shardline.spark.driver.inline_records import unpack
from shardline.spark.executor.read_ahead_cache import Leftover, Leftovers
from shardline.spark.quiet_workers import end_quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardline.core.offsets import Range
    from shardline.services.port import StreamService
    from shardline.spark.options import Connection

_MOST_RECORDS: Final = 10_000
_LIGHT_PAGE_BYTES: Final = 400_000
_LIGHT_PAUSE_SECONDS: Final = 0.25
"""Five reads a second are allowed. A heavier page meets the limit of 2 MB a second first, and the
service itself says when to wait."""

_PATIENCE_SECONDS: Final = 30.0
"""How long to read empty pages before a record that was seen on the driver."""

_EMPTY_PAGES_TO_TIP: Final = 20
"""DynamoDB Streams never says that the tip is reached, and gives empty pages before it."""


@dataclass(frozen=True, slots=True)
class ShardRange:
    """One range of one shard, as it travels to an executor."""

    shard_id: str
    range: Range
    begins: bool = False
    """Whether it is the first of its shard under its epoch."""
    carried: bytes | None = None
    """Its records, if the plan has read them already; None: read them."""
    has_gap: bool = False
    """Whether the driver knows, and has written down, that records of it are lost."""


def read_ranges(
    connection: Connection, ranges: tuple[ShardRange, ...]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the records of each range in turn, with the shard's id."""
    _settle_worker()
    service, leftovers = service_for(connection), _leftovers_of(connection)
    for item in ranges:
        for records in read_range(service, item, leftovers):
            yield item.shard_id, records


def read_range(
    service: StreamService,
    item: ShardRange,
    leftovers: Leftovers | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Yield the records behind `after`, up to and including `upto`."""
    if item.carried is not None:
        yield from unpack(item.carried)
        return
    leftovers = leftovers or Leftovers()
    cursor = ShardCursor(service, item.shard_id, item.range.after)
    upto = item.range.upto
    left = leftovers.take(item.shard_id, item.range.after)
    if left is not None:
        cursor = left.cursor
        records, rest, reached = _cut(left.records, item)
        if records.num_rows:
            yield records
        if reached:
            leftovers.keep(Leftover(upto, cursor, rest))
            return
    silent_since: float | None = None
    empty_pages = 0
    while not cursor.ended:
        try:
            page = cursor.read(_MOST_RECORDS)
        except PositionTrimmed as error:
            if not item.has_gap:
                raise GapError(_trimmed(item, error)) from error
            cursor = ShardCursor(service, item.shard_id, TRIM_HORIZON)
            continue
        records, rest, reached = _cut(page.records, item)
        if records.num_rows:
            silent_since, empty_pages = None, 0
            yield records
        if reached:
            leftovers.keep(Leftover(upto, cursor, rest))
            return
        if not records.num_rows:
            silent_since = silent_since or time.monotonic()
            empty_pages += 1
            if item.has_gap and (page.behind_ms == 0 or empty_pages >= _EMPTY_PAGES_TO_TIP):
                return
            if time.monotonic() - silent_since > _PATIENCE_SECONDS:
                raise ServiceError(_missing(item.shard_id, upto, "only empty pages came"))
        if not cursor.ended and page.records.nbytes < _LIGHT_PAGE_BYTES:
            sleep(_LIGHT_PAUSE_SECONDS)
    if isinstance(upto, After) and not item.has_gap:
        raise GapError(_missing(item.shard_id, upto, "the shard ended before it"))


def _cut(records: pa.RecordBatch, item: ShardRange) -> tuple[pa.RecordBatch, pa.RecordBatch, bool]:
    """Return the records up to the range's end, those behind it, and whether it was reached."""
    upto = item.range.upto
    nothing = pa.RecordBatch.from_pylist([], schema=records.schema)  # a slice would hold the page
    if not isinstance(upto, After) or not records.num_rows:
        return records, nothing, False
    numbers = records.column("sequenceNumber")
    if SequenceNumber(numbers[records.num_rows - 1].as_py()) < upto.sequence:
        return records, nothing, False
    row = pc.index(numbers, upto.sequence.text).as_py()
    if row == -1:
        if not item.has_gap:
            raise GapError(_missing(item.shard_id, upto, "newer records came instead"))
        row = sum(SequenceNumber(number) < upto.sequence for number in numbers.to_pylist()) - 1
    rest = records.slice(row + 1)
    return records.slice(0, row + 1), rest if rest.num_rows else nothing, True


def _trimmed(item: ShardRange, error: PositionTrimmed) -> str:
    return (
        f"gap in {item.shard_id} behind {item.range.after}: {error}. Restart the query: the "
        "driver then decides by failOnDataLoss"
    )


def _missing(shard_id: str, upto: Position, what: str) -> str:
    return (
        f"gap in {shard_id}: the batch ends at {upto}, which was there when it was planned, but "
        f"{what}. Restart the query: the driver then decides by failOnDataLoss"
    )


@lru_cache(maxsize=8)
def service_for(connection: Connection) -> StreamService:
    """Return a stream whose connections live as long as this Python process, over many batches."""
    return connect(
        connection.address,
        connection.access,
        wire=connection.wire,
    )


@lru_cache(maxsize=8)
def _leftovers_of(connection: Connection) -> Leftovers:  # noqa: ARG001 # one for each
    return Leftovers()


@lru_cache(maxsize=1)
def _settle_worker() -> None:
    """Spare the collections that Spark's worker makes after every task from what never changes."""
    end_quietly()
    log_to_stderr()
    gc.collect()
    gc.freeze()
