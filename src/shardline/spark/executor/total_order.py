"""Reads the ranges of one task as one sequence: all shards merged by the rules of `core.merging`.

The order depends on the records and on the order of the ranges alone, so that a batch that is read
again gives the same sequence, however its records are cut into pages.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from shardline.core.merging import Backlog, merge
from shardline.services.wire.columns import time_column
from shardline.spark.driver.inline_records import unpack
from shardline.spark.executor.range_reader import RangeReader, ShardRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from shardline.spark.executor.task_reader import StreamAccess

_BUFFER_BYTES: Final = 64_000_000
"""Of all shards together: what was read and could not be ordered yet. Each shard may have a page
in any case."""


def merged_rows(
    access: StreamAccess,
    ranges: Sequence[ShardRange],
    rows_of_page: Callable[[str, pa.RecordBatch], pa.RecordBatch],
    most_bytes: int = _BUFFER_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all ranges in their total order.

    Among shards that are not related, the row created earliest comes next; among equals, the one
    whose range stands first. A shard is begun when its parents among the ranges are finished.
    """
    buffers = _Buffers(most_bytes // max(1, len(ranges)))
    waiting = dict(enumerate(ranges))
    shards: dict[str, _ShardRows] = {}
    unfinished = {item.shard_id for item in ranges}
    try:
        while unfinished:
            for clock, item in list(waiting.items()):
                if unfinished.isdisjoint(item.parents):
                    del waiting[clock]
                    shards[item.shard_id] = _ShardRows(clock)
                    _start(access, item, buffers)
            for shard_id, ended, pages in buffers.take([k for k, s in shards.items() if s.needs]):
                shards[shard_id].ended |= ended
                for page in pages:
                    shards[shard_id].add(rows_of_page(shard_id, page))
            finished = [k for k, shard in shards.items() if shard.ended and not len(shard.times)]
            for shard_id in finished:
                del shards[shard_id]
                unfinished.discard(shard_id)
            if not finished:
                held_by = {p for item in waiting.values() for p in item.parents}
                yield from _next_rows(shards, held_by)
    finally:
        buffers.abandon()


def _start(access: StreamAccess, item: ShardRange, buffers: _Buffers) -> None:
    shard_id = item.shard_id
    buffers.open(shard_id)
    if item.inline is not None:
        for page in unpack(item.inline):
            buffers.put(shard_id, page)
        buffers.end(shard_id, None, None)
        return
    reader = RangeReader(
        access.service,
        item,
        buffers.put,
        full=partial(buffers.is_full, shard_id),
        pace=access.pace_of(shard_id),
        cache=access.read_ahead,
    )
    access.pool.submit(reader.read_steps(), partial(buffers.end, shard_id))


def _next_rows(shards: Mapping[str, _ShardRows], held_by: set[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that can be ordered without those that were not read yet."""
    backlogs = [
        # After the last row of a parent its children come, which are not read yet.
        Backlog(shard.clock, shard.times, holds=not shard.ended or shard_id in held_by)
        for shard_id, shard in shards.items()
    ]
    merged = merge(backlogs)
    taken = [
        rows
        for shard, count in zip(shards.values(), merged.counts, strict=True)
        for rows in shard.take(count)
    ]
    if not taken:
        return
    if merged.order is None:
        yield from taken
        return
    ordered = pa.Table.from_batches(taken).take(pa.array(merged.order)).combine_chunks()
    yield from ordered.to_batches()


@dataclass
class _ShardRows:
    """The rows of one shard that were read and not yielded yet."""

    clock: int
    ended: bool = False
    pages: deque[pa.RecordBatch] = field(default_factory=deque)
    times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Of each row, raised to the highest before it."""
    highest: int = np.iinfo(np.int64).min

    @property
    def needs(self) -> bool:
        """Return true if nothing can be ordered without a page of this shard."""
        return not self.ended and not len(self.times)

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        times = time_column(rows).cast(pa.int64()).to_numpy(zero_copy_only=False)
        raised = np.maximum.accumulate(np.maximum(times, self.highest))
        self.highest = int(raised[-1])
        self.pages.append(rows)
        self.times = np.concatenate([self.times, raised])

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        """Remove the first rows, and yield them."""
        self.times = self.times[count:]
        while count:
            rows = self.pages.popleft()
            if rows.num_rows > count:
                self.pages.appendleft(rows.slice(count))
                rows = rows.slice(0, count)
            count -= rows.num_rows
            yield rows


class _Abandoned(Exception):
    """The task is over, so that its remaining ranges are not read on."""


@dataclass
class _Buffer:
    pages: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0
    ended: bool = False


class _Buffers:
    """Pages on their way from the reading threads to the task's thread, shard by shard."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._shards: dict[str, _Buffer] = {}
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._abandoned = False

    def open(self, shard_id: str) -> None:
        with self._changed:
            self._shards[shard_id] = _Buffer()

    def put(self, shard_id: str, page: pa.RecordBatch) -> None:
        with self._changed:
            buffer = self._shards[shard_id]
            buffer.pages.append(page)
            buffer.size_bytes += page.nbytes
            self._changed.notify_all()

    def is_full(self, shard_id: str) -> bool:
        """Return true if a shard has read enough; raise if nobody takes pages any more."""
        if self._abandoned:
            raise _Abandoned
        buffer = self._shards[shard_id]
        return bool(buffer.pages) and buffer.size_bytes >= self._most_bytes

    def end(self, shard_id: str, _: object, error: BaseException | None) -> None:
        """Record that a range was read to its end, or failed."""
        with self._changed:
            self._shards[shard_id].ended = True
            self._error = self._error or error
            self._changed.notify_all()

    def abandon(self) -> None:
        """Have the reading threads stop: the task failed, or Spark wants no more of it."""
        self._abandoned = True

    def take(self, needed: Sequence[str]) -> list[tuple[str, bool, list[pa.RecordBatch]]]:
        """Wait until each needed shard has a page or has ended, and return their pages.

        Of shards that are not needed nothing is taken, so that they stay within their bound.
        """
        taken = []
        with self._changed:
            for shard_id in needed:
                buffer = self._shards[shard_id]
                self._changed.wait_for(
                    lambda b=buffer: b.pages or b.ended or self._error is not None  # type: ignore[misc]
                )
                if self._error is not None:
                    raise self._error
                pages, buffer.pages, buffer.size_bytes = buffer.pages, [], 0
                taken.append((shard_id, buffer.ended, pages))
        return taken
