"""Reads the ranges of one task: many shards at once, each in its order, within a bound of bytes.

A shard gives 2 MB a second, so that one which is waited for must not hold a core. The reads are
steps on a few threads; the task's own thread takes the pages apart and hands them to Spark.
"""

from __future__ import annotations

import gc
import queue
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from shardline.consumer.logs import log_to_stderr
from shardline.services.clock import boot_seconds
from shardline.services.pace import DYNAMODB_QUOTA, Quota, ShardPace
from shardline.spark.driver.inline_records import unpack
from shardline.spark.executor.range_reader import CALLS_PER_SECOND, RangeReader, ShardRange
from shardline.spark.executor.read_ahead import ReadAhead
from shardline.spark.step_pool import StepPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from shardline.services.port import StreamService
    from shardline.spark.options import Connection

_THREADS: Final = 16
_BUFFER_BYTES: Final = 64_000_000
"""Of all shards of a task together: what was read and not taken by Spark yet."""


@dataclass
class StreamAccess:
    """What a Python process keeps for one stream, over many batches."""

    service: StreamService
    read_ahead: ReadAhead = field(default_factory=ReadAhead)
    paces: dict[str, ShardPace] = field(default_factory=dict)
    pool: StepPool = field(default_factory=lambda: StepPool(_THREADS, "shardline-read"))

    def pace_of(self, shard_id: str) -> ShardPace:
        """Return what this process knows of the quota of a shard."""
        pace = self.paces.get(shard_id)
        if pace is None:
            records = Quota().page_records
            if not self.service.finds_times:
                records = DYNAMODB_QUOTA.page_records
            quota = Quota(CALLS_PER_SECOND, page_records=records)
            pace = self.paces[shard_id] = ShardPace(quota)
        return pace


class _Abandoned(Exception):
    """The task is over, so that its remaining ranges are not read on."""


class _Buffer:
    """Pages on their way from the reading threads to the task's thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._pages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._bytes = 0
        self._abandoned = False

    def put(self, shard_id: str, records: pa.RecordBatch) -> None:
        with self._lock:
            self._bytes += records.nbytes
        self._pages.put((shard_id, records))

    def full(self) -> bool:
        """Return true if the reading threads should wait; raise if nobody takes pages any more."""
        if self._abandoned:
            raise _Abandoned
        return self._bytes >= self._most_bytes

    def end(self, _: object, error: BaseException | None) -> None:
        """Record that one range was read to its end, or failed."""
        self._pages.put(error)

    def take(self, ranges: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield pages until so many ranges have ended."""
        try:
            while ranges:
                item = self._pages.get()
                if item is None:
                    ranges -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    with self._lock:
                        self._bytes -= item[1].nbytes
                    yield item
        finally:
            self._abandoned = True  # the task failed, or Spark wants no more of it


def read_ranges(
    access: StreamAccess, ranges: tuple[ShardRange, ...], most_bytes: int = _BUFFER_BYTES
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the records of all ranges with their shard's id, each range in its order."""
    to_read = []
    for item in ranges:
        if item.inline is None:
            to_read.append(item)
        else:
            yield from ((item.shard_id, records) for records in unpack(item.inline))
    buffer = _Buffer(most_bytes)
    for item in to_read:
        pace = access.pace_of(item.shard_id)
        pace.deduct(boot_seconds(), item.spent_bytes)
        reader = RangeReader(
            access.service,
            item,
            buffer.put,
            full=buffer.full,
            pace=pace,
            cache=access.read_ahead,
        )
        access.pool.submit(reader.read_steps(), buffer.end)
    yield from buffer.take(len(to_read))


@lru_cache(maxsize=8)
def access_to(connection: Connection) -> StreamAccess:
    """Return a stream whose connections live as long as this Python process, over many batches."""
    _freeze_worker()
    return StreamAccess(connection.connect())


@lru_cache(maxsize=1)
def _freeze_worker() -> None:
    """Exclude what never changes from the collections that Spark's worker makes after each task."""
    log_to_stderr()
    gc.collect()
    gc.freeze()
