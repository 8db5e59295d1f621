"""One shard: its hash range, its parents and children, and the records that it retains."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from shardline.local.kinesis.reads import Reads
from shardline.local.kinesis.sequences import sequence_ends

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from shardline.core.shards import HashRange


class LifecycleEvent(NamedTuple):
    """The opening or the closing of a shard."""

    tick: int
    at_ms: int
    reshard: int
    """The number of splits and merges of the stream so far, including this one."""


class PageSlice(NamedTuple):
    """The records of one page, as indexes into the shard's log."""

    start: int
    end: int


def shard_id_of(index: int) -> str:
    """Return the id of the shard with an index."""
    return f"shardId-{index:012d}"


class ShardLog:
    """A shard and its log. Records are stored as encoded for GetRecords."""

    def __init__(
        self,
        stream_name: str,
        created_ms: int,
        index: int,
        hash_range: HashRange,
        parents: tuple[ShardLog, ...],
        opened: LifecycleEvent,
    ) -> None:
        self.id = shard_id_of(index)
        self.limits_key = f"{stream_name}@{created_ms}/{self.id}"
        """By which its limits are counted: a stream that is made again has other shards."""
        self.index = index
        self.hash_range = hash_range
        self.parents = parents
        self.children: tuple[ShardLog, ...] = ()
        self.opened = opened
        self.closed: LifecycleEvent | None = None
        self.pages = 0
        """How many pages were polled."""
        self.reads = Reads()
        """Since somebody asked for them last."""
        self.listeners: set[asyncio.Event] = set()
        """Set at every new record and at the closing of the shard."""
        self._number_start, self._number_end = sequence_ends(created_ms, index)
        self._ticks: list[int] = []
        self._arrivals_ms: list[int] = []
        self._size_before: list[int] = []
        self._size_total = 0
        self._fragments: list[bytes] = []
        self._fragments_in_cbor: list[bytes | None] = []
        """As far as somebody read in CBOR."""

    def number(self, tick: int) -> str:
        """Return the sequence number of a tick in this shard."""
        return self.numbers(range(tick, tick + 1))[0]

    def numbers(self, ticks: range) -> list[str]:
        """Return the sequence numbers of ticks."""
        start, end = self._number_start, self._number_end
        return [f"{start}{tick:028d}{end}" for tick in ticks]

    def append(
        self, ticks: range, arrived_ms: int, fragments: list[bytes], sizes: list[int]
    ) -> None:
        """Append records that arrived at once."""
        self._ticks += ticks
        self._arrivals_ms += [arrived_ms] * len(ticks)
        *before, self._size_total = accumulate(sizes, initial=self._size_total)
        self._size_before += before
        self._fragments += fragments
        for listener in self.listeners:
            listener.set()

    def close(self, closed: LifecycleEvent) -> None:
        """Close the shard."""
        self.closed = closed
        for listener in self.listeners:
            listener.set()

    def trim(self, horizon_ms: int) -> None:
        """Remove the records that arrived at or before the horizon."""
        if self._arrivals_ms and self._arrivals_ms[0] <= horizon_ms:
            count = bisect_right(self._arrivals_ms, horizon_ms)
            columns: tuple[list[Any], ...] = (
                self._ticks,
                self._arrivals_ms,
                self._size_before,
                self._fragments,
                self._fragments_in_cbor,
            )
            for column in columns:
                del column[:count]

    def find_time(self, time_ms: int) -> int | None:
        """Return the tick of the first record that arrived at or after a time, or None."""
        place = bisect_left(self._arrivals_ms, time_ms)
        return self._ticks[place] if place < len(self._ticks) else None

    def page(self, from_tick: int, max_records: int, max_bytes: int) -> PageSlice:
        """Return the records from a tick on within both limits, at least one if there is any."""
        start = bisect_left(self._ticks, from_tick)
        if start == len(self._ticks):
            return PageSlice(start, start)
        budget = self._size_before[start] + max_bytes
        end = bisect_right(self._size_before, budget, lo=start)
        # The last record starts within the budget but can end beyond it.
        size_after = self._size_before[end] if end < len(self._ticks) else self._size_total
        if size_after > budget:
            end -= 1
        return PageSlice(start, max(start + 1, min(end, start + max_records)))

    def fragments(self, piece: PageSlice) -> list[bytes]:
        """Return the encoded records of a page."""
        return self._fragments[piece.start : piece.end]

    def fragments_in_cbor(
        self, piece: PageSlice, translate: Callable[[bytes], bytes]
    ) -> list[bytes]:
        """Return the records of a page in CBOR; each record is translated at its first read."""
        kept = self._fragments_in_cbor
        kept += [None] * (piece.end - len(kept))
        if None in kept[piece.start : piece.end]:
            for place in range(piece.start, piece.end):
                kept[place] = kept[place] or translate(self._fragments[place])
        return [fragment for fragment in kept[piece.start : piece.end] if fragment is not None]

    def size_bytes(self, piece: PageSlice) -> int:
        """Return the size of a page's records as AWS counts it: data and partition keys."""
        if piece.start == piece.end:
            return 0
        full = piece.end == len(self._ticks)
        end = self._size_total if full else self._size_before[piece.end]
        return end - self._size_before[piece.start]

    def tick_after(self, piece: PageSlice) -> int:
        """Return the tick at which reading continues after a page that is not empty."""
        return self._ticks[piece.end - 1] + 1

    def behind_ms(self, place: int, now_ms: int) -> int:
        """Return MillisBehindLatest at an index of the log: 0 at the tip, at least 1 before it."""
        if place >= len(self._ticks):
            return 0
        return max(1, now_ms - self._arrivals_ms[place])
