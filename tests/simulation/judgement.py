"""What must hold in a simulated world besides the promises about records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shardline.core.positions import After, Latest
from tests.simulation.user import stream_of
from tests.simulation.workers import APP

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.consumer.consumer import ShardBatch
    from shardline.consumer.messages import GapFound
    from shardline.core.leasing.rows import LeaseRow
    from tests.simulation.stream import SimStream
    from tests.simulation.workers import SimWorker
    from tests.simulation.world import World


_BY_HAND = ("delete row", "delete header", "delete heartbeat", "recreate")
"""Somebody took leases away behind the workers' backs: two may work on one shard for a while."""


class LeaseStolen(Exception):
    """A lease of a worker that was well was taken as if it were dead."""


class WentBack(Exception):
    """A row that was made again forgot what its holder knew."""


class NotHandedOver(Exception):
    """A worker left in peace, and its shards stayed without an owner."""


class FalseGap(Exception):
    """A gap was declared, though nothing of the shard or its ancestors can have expired."""


class LeaseLost(Exception):
    """A delivery began under a lease that another worker had taken."""


class Judgement:
    """Watches workers and leases."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.table.on_steal = self._judge_steal
        world.table.on_rewind = self._judge_rewind
        world.table.on_gap = self._judge_row_with_gap
        world.user.on_begin = self._judge_begin
        self._owed: set[tuple[str, str, datetime]] = set()
        """Gaps that were found: each must be on record in the end."""
        self._by_hand = any(f.kind in _BY_HAND for f in world.faults)

    # --- leases -----------------------------------------------------------------------------

    def _judge_steal(self, old: LeaseRow, new: LeaseRow) -> None:
        """A worker that is well loses nothing to the expiry of its leases.

        Unless somebody deletes its heartbeat again and again: who looks just then sees none.
        """
        since = self._world.clockwork.now - 3 * self._world.knobs.lease_seconds
        deleted = sum(at > since for at in self._world.table.beats_deleted_at)
        if self._is_well(old.lease_owner) and deleted < 2:
            raise LeaseStolen(f"{new.shard_id}, by {new.lease_owner} from {old.lease_owner}")

    def _judge_rewind(self, old: LeaseRow) -> None:
        """Who holds a lease whose row is deleted makes it again where it was."""
        if self._is_well(old.lease_owner):
            raise WentBack(f"{old.shard_id}, though {old.lease_owner} was well")

    def gap_found(self, found: GapFound) -> None:
        """A pipeline goes on after a gap; it comes on record by and by.

        One that was started for a stream which was deleted since may be right: what nobody read
        there is lost. Its row goes with that stream.
        """
        stream, shard_id = self._world.streams[found.key.stream_name], found.key.shard_id
        created_at = self._world.table.created_at[found.key]
        if stream.has(created_at):
            self._judge_gap(stream, stream.named_at(shard_id, created_at), found.text)
            self._owed.add((stream.name, shard_id, created_at))

    def _judge_row_with_gap(self, new: LeaseRow) -> None:
        stream = self._world.streams[new.stream_name]
        name = stream.named_at(new.shard_id, new.stream_created_at)
        self._judge_gap(stream, name, new.gap)

    def _judge_gap(self, stream: SimStream, shard: str, gap: str) -> None:
        """A gap is declared only where records expired; then they are nobody's loss."""
        if not stream.anything_expired(shard):
            raise FalseGap(f"{shard}: {gap}")
        stream.excuse_expired(shard)

    def _judge_begin(self, batch: ShardBatch) -> None:
        """No delivery begins under an epoch that was not taken, or when a later one was."""
        space = (APP, stream_of(batch))
        row = self._world.table.rows_of(space).get(batch.shard_id)
        if row is not None and row.epoch != batch.fence.epoch and not self._by_hand:
            raise LeaseLost(f"{batch.shard_id}: {batch.fence} began, and {row} was there")

    @property
    def _table_calm(self) -> bool:
        """Return true if the table has been well for so long that nobody can be mistaken."""
        world = self._world
        calm_seconds = world.network.table_calm_since(world.clockwork.now)
        return calm_seconds > 2 * world.knobs.lease_seconds

    def _is_well(self, owner: str | None) -> bool:
        return any(
            worker.well and self._table_calm and not self._world.knobs.one_name
            for worker in self._world.workers
            if any(c.owner == owner for c in worker.coordinators.values())
        )

    def expect_successors(self, left: SimWorker) -> None:
        """What a worker gave back on leaving is taken at once by the others."""
        world = self._world
        others = [w for w in world.workers if w is not left]
        if not self._can_take_over(others) or not left.was_well:
            return
        owned = {
            (stream_name, row.shard_id): row.epoch
            for stream_name, coordinator in left.coordinators.items()
            for row in world.table.rows_of((APP, stream_name)).values()
            if row.lease_owner == coordinator.owner
            or (row.lease_owner is None and row.begun and not row.completed)
        }
        world.clockwork.after(
            0.8 * world.knobs.lease_seconds, partial(self._judge_handover, others, owned)
        )

    def _can_take_over(self, others: list[SimWorker]) -> bool:
        """Return true if nothing keeps these workers from taking what is free."""
        world = self._world
        calm = self._table_calm and not world.table.lagging and not self._by_hand
        roomy = world.knobs.capacity is None and not world.knobs.one_name
        exact = not world.knobs.stale_listing_one_in and not world.knobs.stream_noise
        listed = exact and not any(
            fault.kind in ("stale listing", "open parent", "hang") for fault in world.faults
        )
        listed &= not any("listing" in fault.kind for fault in world.faults)
        return calm and roomy and listed and bool(others) and all(w.well for w in others)

    def _judge_handover(self, others: list[SimWorker], owned: dict[tuple[str, str], int]) -> None:
        if not self._can_take_over(others):
            return
        for (stream_name, shard_id), epoch in owned.items():
            row = self._world.table.rows_of((APP, stream_name)).get(shard_id)
            if row is not None and not row.completed and not row.halted and row.epoch == epoch:
                raise NotHandedOver(f"{shard_id} after its owner left: {row}")

    # --- once nothing fails any more --------------------------------------------------------

    def unsettled(self) -> str:
        """Return what is not as it should be; empty if everything is.

        What is lost is counted last: each stream has excused by then what nobody has room for.
        """
        for stream in self._world.streams.values():
            trouble = self._unsettled_leases(stream)
            if trouble:
                return trouble
        verdict = self._world.history.checker.verdict()
        return f"{verdict.lost} not delivered: {verdict.examples[-1]}" if verdict.lost else ""

    def _unsettled_leases(self, stream: SimStream) -> str:
        world, state = self._world, stream.state
        rows = world.table.rows_of((APP, stream.name))
        workers = [w for w in world.workers if w.up and not w.leaving]
        if state is None or not workers:
            return "no worker is up"
        live = {w.coordinators[stream.name].owner: 0 for w in workers}
        current = {i: r for i, r in rows.items() if r.stream_created_at == stream.created_at}
        for row in current.values():
            if not row.completed and row.lease_owner in live:
                live[row.lease_owner] += 1
        for stream_name, shard_id, created_at in self._owed:
            here = (stream_name, created_at) == (stream.name, stream.created_at)
            owed = current.get(shard_id) if here else None
            if owed is not None and not owed.gap:
                return f"the gap that was found in {shard_id} is not on record"
        held, capacity = sorted(live.values()), world.knobs.capacity
        if held[-1] - held[0] > 1 or held[-1] > (capacity or held[-1]):
            return f"out of balance: {live}"
        full = capacity is not None and held[0] == capacity
        idle: list[str] = []
        for shard in state.listed_shards():
            lease = current.get(shard.id)
            if lease is not None and lease.completed:
                continue
            if lease is None:
                if shard.closed is None:
                    return f"{shard.id} is open and has no row"
            elif lease.halted:
                return f"{shard.id} is halted: {lease.halted}"
            elif lease.lease_owner not in live:
                idle.append(shard.id)
            elif shard.closed is not None:
                return f"{shard.id} is closed and not completed: {lease}"
            elif not self._acknowledged(stream, shard.id, lease):
                return f"{shard.id} is not acknowledged to its last record: {lease}"
        said = [w.coordinators[stream.name].state.unowned for w in workers]
        if full and idle:
            return self._when_full(stream, idle, said, current)
        if any(said):
            return f"says that shards have no owner, but there is room: {said}"
        return f"{idle} have no owner that lives: {rows[idle[0]]}" if idle else ""

    def _acknowledged(self, stream: SimStream, shard_id: str, row: LeaseRow) -> bool:
        state = stream.state
        last = stream.last_number(state.find_shard(shard_id)) if state is not None else None
        if last is None:
            return True
        if not isinstance(row.checkpoint, After):
            return isinstance(self._world.knobs.start, Latest)  # nothing came after the start
        return int(row.checkpoint.sequence.text) >= last

    def _when_full(
        self, stream: SimStream, idle: list[str], said: list[int], rows: dict[str, LeaseRow]
    ) -> str:
        """Workers at their capacity leave shards without an owner, and say so: no loss."""
        if not all(said):
            return f"shards without an owner, and not everybody says so: {said}"
        stream.excuse_unowned(idle, rows)
        return ""
