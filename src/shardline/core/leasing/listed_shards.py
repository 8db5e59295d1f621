"""What the service said about the shards of a stream, and what lease rows add to it.

Not every worker lists all shards all the time. A lease row is created only for a shard that a
listing showed, so a row that is newer than one's own listing stands for its shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.lineage import uncovered
from shardline.core.shards import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.core.leasing.rows import LeaseRow
    from shardline.core.shards import HashRange


class ListedShards:
    """The shards of the last whole listing, and answers for single ones."""

    def __init__(self) -> None:
        self.shards: dict[str, Shard] = {}
        self.asked_at = float("-inf")
        """When the last listing was asked for, on this worker's clock."""
        self.holes: tuple[HashRange, ...] = ()
        """The parts of the hash space that the listing does not cover: list again."""
        self.gone: set[str] = set()
        """Shards of which the service said, one by one, that it has them no more."""
        self._parents: set[str] = set()
        """Shards that have children, by any listing: they were closed."""
        self._vouched: dict[str, float] = {}
        """Unlisted shards, and when a row or an answer showed that they exist."""

    def record(self, shards: Iterable[Shard], asked_at: float) -> bool:
        """Record a whole listing; return true if anything changed by it."""
        listed = {shard.id: shard for shard in shards}
        self._parents.update(parent for shard in listed.values() for parent in shard.parents)
        vouched = {
            i: since for i, since in self._vouched.items() if since > asked_at and i not in listed
        }
        changed = listed != self.shards or vouched.keys() != self._vouched.keys()
        self.shards, self._vouched = listed, vouched
        self.asked_at = max(self.asked_at, asked_at)
        if changed:
            self.holes = uncovered(listed.values())
            self.gone.difference_update(listed)
        return changed

    def add_children(self, children: Iterable[Shard]) -> None:
        """Record the children of a shard."""
        for child in children:
            self.shards[child.id] = child
            self._parents.update(child.parents)
            self._vouched.pop(child.id, None)
            self.gone.discard(child.id)

    def vouch(self, shard_id: str, now: float) -> None:
        """Record that a shard exists, by its row or by an answer of the service."""
        if shard_id not in self.shards:
            self._vouched.setdefault(shard_id, now)
            self.gone.discard(shard_id)

    def known(self, rows: Mapping[str, LeaseRow]) -> list[Shard]:
        """Return the listed shards, then those that are vouched for."""
        vouched = [
            Shard(i, rows[i].parents) for i in self._vouched if i in rows and i not in self.shards
        ]
        return [*self.shards.values(), *vouched]

    def closed_since(self, shard_id: str, since: float) -> bool | None:
        """Return true if a listing asked for after `since` shows a shard closed; None if none was.

        A shard that has children was closed, and so was one that the service has no more. That a
        listing lacks it proves nothing.
        """
        if shard_id in self._parents or shard_id in self.gone:
            return True
        if self.asked_at <= since:
            return None
        shard = self.shards.get(shard_id)
        return shard is not None and shard.closed
