"""Which free leases a worker takes: its fair part of them, and those that nobody else takes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

from shardline.core.leasing.shares import Level, Load, dealt, level_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from shardline.core.leasing.ledger import Ledger
    from shardline.core.leasing.peers import Peers

_LEFT_AT_ONCE: Final = 3


class FreeLeases:
    """The free leases of readable shards, and since when each is free."""

    def __init__(self, me: str, lease_seconds: float, capacity: int | None) -> None:
        self._me = me
        self._lease_seconds = lease_seconds
        self._capacity = capacity
        self.since: dict[str, float] = {}
        """Every free lease of a readable shard, and since when it is known to be free."""
        self.unowned = 0
        """Shards that nobody has room for, because of capacities."""

    def loads(
        self, ledger: Ledger, peers: Peers, coming: Mapping[str, int] | None = None
    ) -> tuple[list[Load], Level]:
        """Return what each worker holds, with what is `coming` to it, and the fair level."""
        coming = coming or {}
        loads = [Load(b.worker, b.held + coming.get(b.worker, 0), b.capacity) for b in peers.live()]
        held = len(ledger.owned.get(self._me, ()))
        loads.append(Load(self._me, held + coming.get(self._me, 0), self._capacity))
        loads.sort()
        return loads, level_of(len(ledger.leasable), loads)

    def find(self, ledger: Ledger, peers: Peers, now: float) -> None:
        """Update `since`."""
        free = free_shards(ledger, peers, self._me) & ledger.leasable
        self.since = {i: self.since.get(i, now) for i in free}
        if not free:
            self.unowned = 0

    def mine(
        self,
        ledger: Ledger,
        peers: Peers,
        now: float,
        *,
        first: Container[str] = (),
        avoided: Container[str] = (),
    ) -> list[str]:
        """Return the free shards to take, those that were given to this worker first.

        The children of shards that this worker completed (`first`) are taken by it at once:
        others may not know of them yet. Those in `avoided` are left to the others.
        """
        if not self.since:
            return []
        common: list[str] = []
        chosen: dict[str, None] = {}
        coming: dict[str, int] = {}
        for shard_id in sorted(self.since, key=_scattered):
            given_to = ledger.rows[shard_id].given_to
            beat = peers.beat_of(given_to) if given_to is not None else None
            free_for = now - self.since[shard_id]
            if shard_id in avoided:
                continue
            if given_to == self._me or (given_to is None and shard_id in first):
                chosen[shard_id] = None
                coming[self._me] = coming.get(self._me, 0) + 1
            elif beat and shard_id in beat.asks and free_for < self._lease_seconds:
                coming[beat.worker] = coming.get(beat.worker, 0) + 1
            else:
                common.append(shard_id)
        loads, level = self.loads(ledger, peers, coming)
        self.unowned = level.left_over
        # Heartbeats lag behind what the rows already show.
        loads = [
            load._replace(held=max(load.held, len(ledger.owned.get(load.worker, ()))))
            for load in loads
        ]
        chosen.update(dict.fromkeys(dealt(common, loads, level.level, self._me)))
        chosen.update(dict.fromkeys(self._left(common, ledger, level.level, len(loads), now)))
        if self._capacity is None:
            return list(chosen)
        return list(chosen)[: max(0, self._capacity - len(ledger.owned.get(self._me, ())))]

    def _left(
        self, common: list[str], ledger: Ledger, level: int, workers: int, now: float
    ) -> list[str]:
        """Return this worker's part of those that were dealt to others who did not take them.

        Workers below the level come first. Each prefers other shards, so that together they take
        all of them and rarely reach for the same.
        """
        patient = len(ledger.owned.get(self._me, ())) > level
        patience_seconds = self._lease_seconds * (1 if patient else 0.5)
        left = [i for i in common if now - self.since[i] >= patience_seconds]
        part = max(_LEFT_AT_ONCE, -(-len(left) // workers))
        return sorted(left, key=lambda i: _scattered(f"{self._me} {i}"))[:part]


def free_shards(ledger: Ledger, peers: Peers, me: str) -> set[str]:
    """Return the unfinished shards that nobody alive owns."""
    owners = (o for o in ledger.owned if o is None or (o != me and peers.dead(o)))
    return set[str]().union(*(ledger.owned[owner] for owner in owners))


@lru_cache(maxsize=100_000)
def _scattered(shard_id: str) -> tuple[int, str]:
    return crc32(shard_id.encode()), shard_id
