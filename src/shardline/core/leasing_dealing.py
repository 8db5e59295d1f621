"""Which free leases a worker takes: its fair part of them, and those that nobody comes for."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import crc32

from shardline.core.leasing_balance import Level, Load, dealt, level_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.core.leasing_ledger import Ledger
    from shardline.core.leasing_peers import Peers


class Dealing:
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

    def mine(self, ledger: Ledger, peers: Peers, now: float) -> list[str]:
        """Return the free shards to take, those that were given to me first."""
        free = free_shards(ledger, peers, self._me) & ledger.leasable
        for shard_id in self._free_since.keys() - free:
            del self._free_since[shard_id]
        if not free:
            self.unowned = 0
            return []
        common: list[str] = []
        chosen: dict[str, None] = {}
        coming: dict[str, int] = {}
        for shard_id in sorted(free, key=_scattered):
            free_for = now - self._free_since.setdefault(shard_id, now)
            given_to = ledger.rows[shard_id].given_to
            beat = peers.beat_of(given_to) if given_to else None
            if given_to == self._me:
                chosen[shard_id] = None
                coming[self._me] = coming.get(self._me, 0) + 1
            elif beat and shard_id in beat.asks and free_for < self._lease_seconds:
                coming[beat.worker] = coming.get(beat.worker, 0) + 1
            else:
                common.append(shard_id)
        loads, level = self.loads(ledger, peers, coming)
        self.unowned = level.left_over
        chosen.update(dict.fromkeys(dealt(common, loads, level.level, self._me)))
        for shard_id in common:  # dealt to somebody that does not come for it
            if now - self._free_since[shard_id] >= self._lease_seconds:
                chosen[shard_id] = None
        if self._capacity is None:
            return list(chosen)
        return list(chosen)[: max(0, self._capacity - len(ledger.owned.get(self._me, ())))]


def free_shards(ledger: Ledger, peers: Peers, me: str) -> set[str]:
    """Return the unfinished shards that nobody alive owns."""
    owners = (o for o in ledger.owned if o is None or (o != me and peers.dead(o)))
    return set[str]().union(*(ledger.owned[owner] for owner in owners))


@lru_cache(maxsize=100_000)
def _scattered(shard_id: str) -> tuple[int, str]:
    return crc32(shard_id.encode()), shard_id
