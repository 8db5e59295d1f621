"""What a worker writes about its own leases: checkpoints, ends, releases, and takes anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardline.core.leasing.holdings import Holding, Stage
from shardline.core.leasing.instructions import Release, Save, Take
from shardline.core.leasing.rows import (
    abandoned,
    advanced,
    finished,
    halted,
    one_write,
    released,
    taken,
    with_gap,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from shardline.core.leasing.handover import Handovers
    from shardline.core.leasing.holdings import Holdings
    from shardline.core.leasing.ledger import Ledger
    from shardline.core.leasing.peers import Peers
    from shardline.core.leasing.rows import LeaseRow
    from shardline.core.leasing.times import LeaseTimes


_OVER: Final = (Stage.FINISHED, Stage.STOPPED)


class Saves:
    """Decides what to write about the leases of one worker."""

    def __init__(
        self,
        owner: str,
        times: LeaseTimes,
        ledger: Ledger,
        holdings: Holdings,
        handovers: Handovers,
        peers: Peers,
    ) -> None:
        self._owner = owner
        self._times = times
        self._ledger = ledger
        self._holdings = holdings
        self._handovers = handovers
        self._peers = peers

    def due(
        self, shard_ids: Collection[str], now: float, *, leaving: bool
    ) -> Iterator[Save | Release | Take]:
        """Return what to write about these leases now, each in one write."""
        for shard_id in sorted(shard_ids):
            row = self._ledger.rows[shard_id]
            holding = self._holdings.adopt(shard_id, row.epoch, now)
            write = self._write(row, holding, now, leaving=leaving)
            if write is not None:
                yield write

    def vanished(self) -> Iterator[Save]:
        """Return the completions of shards that vanished unread, with the gap in words."""
        for shard_id in self._ledger.gaps:
            row = self._ledger.rows[shard_id]
            free = row.lease_owner is None or self._peers.dead(row.lease_owner)
            if row.lease_owner == self._owner or (free and self._peers.on_duty(shard_id)):
                gap = f"{shard_id} vanished from the stream; it was read up to {row.checkpoint}"
                yield Save(finished(row, gap), row)

    def _write(
        self, row: LeaseRow, holding: Holding, now: float, *, leaving: bool
    ) -> Save | Release | Take | None:
        if not leaving and not self._due(row, holding, now):
            return None
        new = self._with_progress(row, holding)
        if holding.halted:
            return Save(one_write(halted(new, holding.failed), row), row)
        if holding.ended_at is not None:
            if self._ledger.listing.closed_since(row.shard_id, holding.ended_at):
                return Save(one_write(finished(new, as_of=holding.as_of), row), row)
            if not leaving:
                return None
        if holding.given_up:
            return Release(one_write(abandoned(new), row), row)
        if leaving:
            return Release(one_write(released(new), row), row)
        if holding.stage is Stage.STOPPED:
            return self._take_anew(row, new, holding)
        if holding.stage is Stage.FINISHED:
            receiver = self._handovers.receiver_of(row.shard_id, self._peers)
            return Release(one_write(released(new, receiver), row), row)
        return Save(one_write(new, row), row) if new is not row else None

    def _due(self, row: LeaseRow, holding: Holding, now: float) -> bool:
        """Return true if something may have to be written: there is progress, or work ended."""
        if holding.stage in _OVER or holding.ended_at is not None or holding.gap:
            return True
        if holding.given_up or holding.halted:
            return True
        suspected = row.starts > 1
        due = suspected or now - holding.saved_at >= self._times.checkpoint_seconds
        return due and holding.acknowledged is not None

    def _take_anew(self, row: LeaseRow, new: LeaseRow, holding: Holding) -> Take | Save:
        """Return the take of a lease whose work was stopped; a failure counts as a start."""
        starts = new.starts + (bool(holding.failed) and holding.counted)
        if starts >= self._times.most_starts:
            return Save(one_write(halted(new, too_many_starts(new)), row), row)
        again = taken(new, self._owner, self._ledger.epoch_of_parents(row), counted=starts)
        return Take(one_write(again, row), row)

    def _with_progress(self, row: LeaseRow, holding: Holding) -> LeaseRow:
        new = with_gap(row, holding.gap)
        if holding.acknowledged is not None:
            new = advanced(new, holding.acknowledged, holding.as_of, holding.lag_ms)
        return new


def too_many_starts(row: LeaseRow) -> str:
    """Return why a row is halted whose work never got past its checkpoint."""
    return (
        f"work began {row.starts} times at {row.checkpoint} and ended each time before anything "
        "was acknowledged"
    )
