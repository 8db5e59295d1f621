"""Which free leases a worker takes: its fair part of them, and those that nobody comes for."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

from shardline.core.leasing.shares import Level, Load, dealt, level_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.core.leasing.ledger import Ledger
    from shardline.core.leasing.peers import Peers

_LEFT_AT_ONCE: Final = 3


class FreeLeases:
    """Watches the free leases of readable shards."""

    def __init__(self, me: str, lease_seconds: float, capacity: int | None) -> None:
        self._me = me
        self._lease_seconds = lease_seconds
        self._capacity = capacity
        self._free_since: dict[str, float] = {}
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

    def worth_reading(self, ledger: Ledger, peers: Peers, now: float) -> Iterable[str]:
        """Return what to read before taking: mine, and all that is free, for that decides mine."""
        mine = self.mine(ledger, peers, now)
        return dict.fromkeys((*mine, *self._free_since)) if mine else ()

    def mine(self, ledger: Ledger, peers: Peers, now: float) -> list[str]:
        """Return the free shards to take, those that were given to me first."""
        free = free_shards(ledger, peers, self._me) & ledger.leasable
        if not free:
            self.unowned, self._free_since = 0, {}
            return []
        self._free_since = {i: self._free_since.get(i, now) for i in free}
        common: list[str] = []
        chosen: dict[str, None] = {}
        coming: dict[str, int] = {}
        for shard_id in sorted(free, key=_scattered):
            given_to = ledger.rows[shard_id].given_to
            if given_to is None:
                common.append(shard_id)
                continue
            beat = peers.beat_of(given_to)
            free_for = now - self._free_since[shard_id]
            if given_to == self._me:
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
        chosen.update(dict.fromkeys(self._left(common, ledger, level.level, now)))
        if self._capacity is None:
            return list(chosen)
        return list(chosen)[: max(0, self._capacity - len(ledger.owned.get(self._me, ())))]

    def _left(self, common: list[str], ledger: Ledger, level: int, now: float) -> list[str]:
        """Return some that were dealt to others who do not come: first to those with the least."""
        patient = len(ledger.owned.get(self._me, ())) > level
        patience_seconds = self._lease_seconds * (2 if patient else 1)
        left = [i for i in common if now - self._free_since[i] >= patience_seconds]
        return sorted(left, key=lambda i: _scattered(f"{self._me} {i}"))[:_LEFT_AT_ONCE]


def free_shards(ledger: Ledger, peers: Peers, me: str) -> set[str]:
    """Return the unfinished shards that nobody alive owns."""
    owners = (o for o in ledger.owned if o is None or (o != me and peers.dead(o)))
    return set[str]().union(*(ledger.owned[owner] for owner in owners))


@lru_cache(maxsize=100_000)
def _scattered(shard_id: str) -> tuple[int, str]:
    return crc32(shard_id.encode()), shard_id
