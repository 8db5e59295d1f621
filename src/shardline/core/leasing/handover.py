"""Hand-overs: a worker below its share asks, and the owner releases when it has finished.

An ask is part of the asker's heartbeat, so it costs no write, everybody reads it, and it ends with
its asker. A worker asks for a limited number at a time, so that a heartbeat stays small. A lease
that was released for an asker that does not take it is free for all after a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from shardline.core.leasing.shares import Load, givers, may_give, wanted_from_others

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Sequence

    from shardline.core.leasing.ledger import Ledger
    from shardline.core.leasing.peers import Peers


_MOST_ASKS: Final = 100


class Handovers:
    """What one worker asks for, and what it hands over to others."""

    def __init__(self, me: str, lease_seconds: float) -> None:
        self._me = me
        self._patience_seconds = 3 * lease_seconds
        self._wait_seconds = lease_seconds / 3
        self._short_since: float | None = None
        self.asked_at: dict[str, float] = {}
        """The shards that this worker asks for, and since when."""
        self.giving: dict[str, str] = {}
        """Shards of this worker that are being finished, and for whom."""

    @property
    def short(self) -> bool:
        """True if this worker has less than its share, and others have more."""
        return self._short_since is not None

    def ask(
        self,
        ledger: Ledger,
        peers: Peers,
        loads: Sequence[Load],
        level: int,
        now: float,
        avoided: Collection[str] = (),
    ) -> None:
        """Ask for what is missing to the share; drop asks that are answered or not needed.

        Those in `avoided` are not asked for.
        """
        if len(loads) == 1:  # there is nobody to ask
            self.asked_at.clear()
            self._short_since = None
            return
        mine = next(load for load in loads if load.worker == self._me)
        richer = {load.worker for load in loads if load.held >= mine.held + 2}
        for shard_id, asked_at in list(self.asked_at.items()):
            impatient = now - asked_at > self._patience_seconds
            wanted_no_more = impatient or shard_id in avoided
            if wanted_no_more or not self._open(shard_id, ledger, richer):
                del self.asked_at[shard_id]
        others = [load for load in loads if load.worker != self._me]
        wanted = wanted_from_others(mine, others, level)
        if not wanted:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        if self._short_since is not None and now - self._short_since < self._wait_seconds:
            return  # others are still taking what is free, and their heartbeats lag behind that
        count = min(wanted, _MOST_ASKS) - len(self.asked_at)
        for shard_id in list(self.asked_at)[: max(0, -count)]:
            del self.asked_at[shard_id]
        if count <= 0:
            return
        spoken_for = {i for beat in peers.live() for i in beat.asks}
        for giver in givers(loads, level, self._me)[:count]:
            ids = ledger.owned.get(giver, set()) & ledger.leasable
            choice = ids - spoken_for - self.asked_at.keys() - set(avoided)
            if choice:
                self.asked_at[min(choice, key=self._preference)] = now

    def promise(self, mine: set[str], at_work: Container[str], peers: Peers) -> None:
        """Promise what others ask for, as far as it is fair.

        A promise is kept: work under this epoch ends either way. If the asker is gone by then,
        the lease is released for all.
        """
        promised: dict[str, int] = {}
        for shard_id, asker in list(self.giving.items()):
            if shard_id not in mine:
                del self.giving[shard_id]
            else:
                promised[asker] = promised.get(asker, 0) + 1
        if not mine:
            return
        for beat in peers.live():
            for shard_id in beat.asks:
                if shard_id in mine and shard_id in at_work and shard_id not in self.giving:
                    already = promised.get(beat.worker, 0)
                    if may_give(len(mine) - len(self.giving), beat.held + already):
                        self.giving[shard_id] = beat.worker
                        promised[beat.worker] = already + 1

    def receiver_of(self, shard_id: str, peers: Peers) -> str | None:
        """Return for whom a promised shard is released; None if the asker wants it no more."""
        asker = self.giving[shard_id]
        beat = peers.beat_of(asker)
        return asker if beat is not None and shard_id in beat.asks else None

    def _open(self, shard_id: str, ledger: Ledger, richer: Container[str]) -> bool:
        """Return true if an ask may be answered: released for me, or held by one with more."""
        row = ledger.rows.get(shard_id)
        if row is None or shard_id not in ledger.leasable:
            return False
        if row.lease_owner is None:
            return row.given_to == self._me
        return row.lease_owner in richer

    def _preference(self, shard_id: str) -> tuple[int, str]:
        """Return an order that differs on every worker, so that not all ask for the same."""
        return crc32(f"{self._me} {shard_id}".encode()), shard_id
