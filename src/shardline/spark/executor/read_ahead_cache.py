"""What a task has read beyond its range, kept in the Python process that the next task may meet.

A page may reach far behind the end of a range, and a shard gives no more than 2 MB a second: to
read that part again with the next batch would waste it. Nothing depends on it. Another process, or
the same batch once more, reads from the stream.
"""

from __future__ import annotations

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
class Leftover:
    """Records behind a position, and the cursor that goes on behind them."""

    after: Position
    cursor: ShardCursor
    records: pa.RecordBatch


class Leftovers:
    """The leftovers of the shards of one stream. Used by one thread."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, Leftover] = OrderedDict()
        self._bytes = 0

    def keep(self, leftover: Leftover) -> None:
        """Keep what was read behind a range."""
        self._drop(leftover.cursor.shard_id)
        self._kept[leftover.cursor.shard_id] = leftover
        self._bytes += _size(leftover)
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def take(self, shard_id: str, after: Position) -> Leftover | None:
        """Return what lies behind a position, once; None if that was not kept."""
        leftover = self._kept.get(shard_id)
        self._drop(shard_id)
        return leftover if leftover is not None and leftover.after == after else None

    def _drop(self, shard_id: str) -> None:
        leftover = self._kept.pop(shard_id, None)
        if leftover is not None:
            self._bytes -= _size(leftover)


def _size(leftover: Leftover) -> int:
    """Return what is held in memory: a slice holds the whole page."""
    return int(leftover.records.get_total_buffer_size())
