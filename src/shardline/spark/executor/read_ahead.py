"""What a task has read beyond its range, kept in the Python process that the next task may meet.

A page may reach beyond the end of a range, and a shard gives no more than 2 MB a second: reading
that part again with the next batch would waste it. Nothing depends on it. Another process, or the
same batch once more, reads from the stream.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from shardline.core.positions import Position
    from shardline.services.cursor import ShardCursor

_MOST_BYTES: Final = 64_000_000
"""Of one process. The oldest are dropped first."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Records after a position, and the cursor that continues after them."""

    after: Position
    cursor: ShardCursor
    records: pa.RecordBatch

    @property
    def size_bytes(self) -> int:
        """What is held in memory: a slice holds its whole page."""
        return int(self.records.get_total_buffer_size())


class ReadAhead:
    """What was read ahead in the shards of one stream. For use by several threads."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, after: Position, cursor: ShardCursor, records: pa.RecordBatch) -> None:
        """Keep what was read after a range, and the cursor."""
        with self._lock:
            self._drop(cursor.shard_id)
            kept = self._kept[cursor.shard_id] = _Kept(after, cursor, records)
            self._bytes += kept.size_bytes
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def take(self, shard_id: str, after: Position) -> _Kept | None:
        """Return what lies after a position, once; None if that was not kept."""
        with self._lock:
            kept = self._kept.get(shard_id)
            self._drop(shard_id)
        return kept if kept is not None and kept.after == after else None

    def _drop(self, shard_id: str) -> None:
        kept = self._kept.pop(shard_id, None)
        if kept is not None:
            self._bytes -= kept.size_bytes
