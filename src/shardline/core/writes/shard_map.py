"""Which shard takes a hash key, and what is known of each shard's quota."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from shardline.core.writes.quota import ShardQuota

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.shards import Shard


class ShardMap:
    """The open shards of one stream by their hash ranges, as last listed."""

    def __init__(self) -> None:
        self.listed = False
        """False before the first listing: then no shard is known for any hash key."""
        self._starts: list[int] = []
        self._ids: list[str] = []
        self._ends: list[int] = []
        self._quotas: dict[str, ShardQuota] = {}

    def update(self, shards: Iterable[Shard]) -> None:
        """Record a listing. What is known of the quotas of shards that are still open is kept."""
        ranges = sorted(
            (shard.hash_range.start, shard.hash_range.end, shard.id)
            for shard in shards
            if not shard.closed and shard.hash_range is not None
        )
        self._starts = [start for start, _, _ in ranges]
        self._ends = [end for _, end, _ in ranges]
        self._ids = [shard_id for _, _, shard_id in ranges]
        self._quotas = {each: self._quotas.get(each) or ShardQuota() for each in self._ids}
        self.listed = True

    def shard_of(self, hash_key: int) -> str | None:
        """Return the id of the shard that takes a hash key, or None where none is known."""
        place = bisect_right(self._starts, hash_key) - 1
        if place < 0 or hash_key > self._ends[place]:
            return None
        return self._ids[place]

    def quota_of(self, shard_id: str) -> ShardQuota:
        """Return the quota of a shard."""
        return self._quotas.setdefault(shard_id, ShardQuota())
