"""What was read of a shard and not delivered yet: bounded in records and bytes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from shardline.core.positions import Position

SMALL_READ_RECORDS: Final = 500
"""What an empty buffer may ask for while the worker's memory is used up: progress, not speed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one shard in order, and where the shard stands after them."""

    records: pa.RecordBatch
    after: Position
    """The checkpoint once all of them are processed."""
    as_of: datetime | None
    """The service's time at which nothing unread lay at or before `after`."""
    lag_ms: int | None


class MemoryBudget:
    """The bytes that all pipelines of a worker may hold together. Use it under one lock."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing more should be read ahead."""
        return self.used_bytes >= self.max_bytes


class ReadAhead:
    """A queue of chunks between a shard's reader and its deliveries."""

    def __init__(self, budget: MemoryBudget, max_records: int, max_bytes: int) -> None:
        self._budget = budget
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._chunks: deque[Chunk] = deque()
        self._taken_bytes = 0
        self.records = 0
        self.bytes = 0

    def demand(self) -> int:
        """Return how many more records may be read now; 0 while the buffer is full."""
        if self._budget.exhausted:
            return 0 if self._chunks or self._taken_bytes else SMALL_READ_RECORDS
        if self.bytes >= self._max_bytes:
            return 0
        return max(0, self._max_records - self.records)

    def put(self, chunk: Chunk) -> None:
        """Append what was read."""
        self._chunks.append(chunk)
        self._count(chunk, 1)

    def take(self) -> Chunk | None:
        """Remove and return the next chunk; None if there is none.

        Its bytes count as used until they are released.
        """
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        self.records -= chunk.records.num_rows
        self.bytes -= chunk.records.nbytes
        self._taken_bytes += chunk.records.nbytes
        return chunk

    def release(self, size_bytes: int) -> None:
        """Record that so much of what was taken is processed: its memory is free."""
        self._taken_bytes -= size_bytes
        self._budget.used_bytes -= size_bytes

    def clear(self) -> None:
        """Drop everything that was read ahead."""
        while self._chunks:
            self._count(self._chunks.popleft(), -1)
        self.release(self._taken_bytes)

    def _count(self, chunk: Chunk, sign: int) -> None:
        size = chunk.records.nbytes
        self.records += sign * chunk.records.num_rows
        self.bytes += sign * size
        self._budget.used_bytes += sign * size
