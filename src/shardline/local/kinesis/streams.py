"""A stream: its shards, its status, the mapping of hash keys, splits and merges."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Literal

from shardline.core.shards import HASH_SPACE_END, HashRange
from shardline.local.kinesis.shards import LifecycleEvent, ShardLog, shard_id_of
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID, REGION

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.local.kinesis.consumers import Consumer

Mode = Literal["PROVISIONED", "ON_DEMAND"]
Status = Literal["CREATING", "ACTIVE", "UPDATING", "DELETING"]

ARN_PREFIX: Final = f"arn:aws:kinesis:{REGION}:{ACCOUNT_ID}:stream/"
DEFAULT_RECORD_KIB: Final = 1024
HOUR_MS: Final = 3_600_000
_SWEEP_MS: Final = 60_000
"""A shard is trimmed when it is used; all shards at this interval, to free memory."""


_MAX_SHARD_INDEX: Final = 2**31 - 1
_SHARD_ID: Final = re.compile(r"(?:.*-)?(\d{1,128})", re.ASCII)


class Stream:
    """One stream. Callers call `advance_to` first, so that due changes have taken effect."""

    def __init__(
        self, name: str, mode: Mode, shard_count: int, created_ms: int, active_ms: int
    ) -> None:
        self.name = name
        self.arn = ARN_PREFIX + name
        self.mode = mode
        self.created_ms = created_ms
        self.retention_hours = 24
        self.max_record_kib = DEFAULT_RECORD_KIB
        self.tags: dict[str, str] = {}
        self.consumers: dict[str, Consumer] = {}
        """The registered consumers by ARN."""
        self.consumer_seconds: dict[str, int] = {}
        """The time in the last ARN of each consumer name."""
        self.status: Status = "CREATING"
        self.deleted_ms: int | None = None
        self.shards: list[ShardLog] = []
        """Every shard since the creation of the stream, by index."""
        self.reshards = 0
        self.next_tick = 1
        self.horizon_ms = 0
        """Records that arrived and shards that closed at or before this time are gone."""
        self._swept_ms = 0
        self._open: list[ShardLog] = []
        self._open_starts: list[int] = []
        self._due: tuple[int, Callable[[int], object]] | None = None
        self._first_shards = shard_count
        self.schedule("CREATING", active_ms, lambda now: self._open_roots(shard_count, now))

    # --- time ---------------------------------------------------------------------------------

    def advance_to(self, now_ms: int) -> None:
        """Apply a scheduled change that is due, and raise the trim horizon."""
        if self._due is not None and self._due[0] <= now_ms:
            due_ms, effect = self._due
            self._due = None
            if self.deleted_ms is None:
                self.status = "ACTIVE"
            effect(due_ms)
        self.horizon_ms = max(self.horizon_ms, now_ms - self.retention_hours * HOUR_MS)
        if self.horizon_ms - self._swept_ms >= _SWEEP_MS:
            self._swept_ms = self.horizon_ms
            for shard in self.shards:
                shard.trim(self.horizon_ms)

    def schedule(self, status: Status, due_ms: int, effect: Callable[[int], object]) -> None:
        """Set a status until a time, at which the effect applies and the stream becomes ACTIVE."""
        self.status = status
        self._due = (due_ms, effect)

    def require_active(self) -> None:
        """Raise `Refusal` unless the stream is ACTIVE."""
        if self.status != "ACTIVE":
            raise Refusal(
                "ResourceInUseException",
                f"Stream {self.name} under account {ACCOUNT_ID} not ACTIVE, "
                f"instead in state {self.status}",
            )

    # --- shards -------------------------------------------------------------------------------

    @property
    def open_shards(self) -> tuple[ShardLog, ...]:
        """The shards that take records, in the order of their hash ranges."""
        return tuple(self._open)

    def requested_shards(self) -> int:
        """Return the number of open shards, or of those that a new stream will have."""
        return len(self._open) if self.shards else self._first_shards

    def listed_shards(self) -> list[ShardLog]:
        """Return the shards that are open or closed within the retention period, by index."""
        return [shard for shard in self.shards if self._is_listed(shard)]

    def find_shard(self, shard_id: str) -> ShardLog:
        """Return a listed shard after trimming it, or raise `Refusal`."""
        index = parse_shard_index(shard_id, self.name)
        shard = self.shard_at(index)
        if shard is None:
            raise shard_not_found(shard_id_of(index), self.name)
        return shard

    def shard_at(self, index: int) -> ShardLog | None:
        """Return a listed shard by its index after trimming it, or None."""
        if index >= len(self.shards) or not self._is_listed(self.shards[index]):
            return None
        shard = self.shards[index]
        shard.trim(self.horizon_ms)
        return shard

    def _is_listed(self, shard: ShardLog) -> bool:
        return shard.closed is None or shard.closed.at_ms > self.horizon_ms

    def shard_for(self, hash_key: int) -> ShardLog:
        """Return the open shard whose range contains a hash key."""
        return self._open[bisect_right(self._open_starts, hash_key) - 1]

    def take_ticks(self, count: int) -> range:
        """Return the next ticks, which are unique within the stream."""
        ticks = range(self.next_tick, self.next_tick + count)
        self.next_tick = ticks.stop
        return ticks

    # --- resharding ---------------------------------------------------------------------------

    def split(self, shard: ShardLog, new_start: int, now_ms: int) -> tuple[ShardLog, ShardLog]:
        """Close a shard and open two children; the second starts at `new_start`."""
        self.reshards += 1
        self._close(shard, now_ms)
        whole = shard.hash_range
        children = (
            self._open_shard(HashRange(whole.start, new_start - 1), (shard,), now_ms),
            self._open_shard(HashRange(new_start, whole.end), (shard,), now_ms),
        )
        shard.children = children
        return children

    def merge(self, shard: ShardLog, adjacent: ShardLog, now_ms: int) -> ShardLog:
        """Close two adjacent shards and open one child for both ranges."""
        self.reshards += 1
        for parent in (shard, adjacent):
            self._close(parent, now_ms)
        union = HashRange(
            min(shard.hash_range.start, adjacent.hash_range.start),
            max(shard.hash_range.end, adjacent.hash_range.end),
        )
        child = self._open_shard(union, (shard, adjacent), now_ms)
        shard.children = adjacent.children = (child,)
        return child

    def _open_roots(self, count: int, now_ms: int) -> None:
        for hash_range in uniform_ranges(count):
            self._open_shard(hash_range, (), now_ms)

    def _open_shard(
        self, hash_range: HashRange, parents: tuple[ShardLog, ...], now_ms: int
    ) -> ShardLog:
        opened = LifecycleEvent(self.take_ticks(1).start, now_ms, self.reshards)
        shard = ShardLog(self.name, self.created_ms, len(self.shards), hash_range, parents, opened)
        self.shards.append(shard)
        place = bisect_right(self._open_starts, hash_range.start)
        self._open.insert(place, shard)
        self._open_starts.insert(place, hash_range.start)
        return shard

    def _close(self, shard: ShardLog, now_ms: int) -> None:
        # The ending sequence number is a bound that no record has, so it takes a tick of its own.
        shard.close(LifecycleEvent(self.take_ticks(1).start, now_ms, self.reshards))
        place = bisect_right(self._open_starts, shard.hash_range.start) - 1
        del self._open[place], self._open_starts[place]


def uniform_ranges(count: int) -> list[HashRange]:
    """Divide the hash space into ranges of equal size; the last one takes the remainder."""
    width = (HASH_SPACE_END + 1) // count
    starts = [index * width for index in range(count)]
    ends = [start - 1 for start in starts[1:]] + [HASH_SPACE_END]
    return [HashRange(start, end) for start, end in zip(starts, ends, strict=True)]


def parse_shard_index(shard_id: str, stream_name: str) -> int:
    """Return the index in a shard id, of which AWS reads only the number at its end."""
    match = _SHARD_ID.fullmatch(shard_id)
    if match is None or int(match[1]) > _MAX_SHARD_INDEX:
        raise shard_not_found(shard_id, stream_name)
    return int(match[1])


def shard_not_found(shard_id: str, stream_name: str) -> Refusal:
    """Return the refusal for a shard that a stream does not have."""
    return Refusal(
        "ResourceNotFoundException",
        f"Could not find shard {shard_id} in stream {stream_name} under account {ACCOUNT_ID}.",
    )
