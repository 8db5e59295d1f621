"""What must hold in a simulated world besides the promises about records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shardline.core.positions import After, Latest
from tests.simulation.workers import APP

if TYPE_CHECKING:
    from shardline.core.leasing.rows import LeaseRow
    from tests.simulation.stream import SimStream
    from tests.simulation.workers import SimWorker
    from tests.simulation.world import World


class LeaseStolen(Exception):
    """A lease of a worker that was well was taken as if it were dead."""


class WentBack(Exception):
    """A row that was made again forgot what its holder knew."""


class NotHandedOver(Exception):
    """A worker left in peace, and its shards stayed without an owner."""


class OwnCodeFailed(Exception):
    """Our own code raised what nobody expects."""


class Judgement:
    """Watches workers and leases."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.table.on_steal = self._judge_steal
        world.table.on_rewind = self._judge_rewind

    def require_no_failures(self) -> None:
        for worker in self._world.workers:
            for failure in worker.failures():
                raise OwnCodeFailed(failure)

    # --- leases -----------------------------------------------------------------------------

    def _judge_steal(self, old: LeaseRow, new: LeaseRow) -> None:
        """A worker that is well loses nothing to the expiry of its leases."""
        if self._is_well(old.lease_owner):
            raise LeaseStolen(f"{new.shard_id}, by {new.lease_owner} from {old.lease_owner}")

    def _judge_rewind(self, old: LeaseRow) -> None:
        """Who holds a lease whose row is deleted makes it again where it was."""
        if self._is_well(old.lease_owner):
            raise WentBack(f"{old.shard_id}, though {old.lease_owner} was well")

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
        if not others or not all(w.well for w in others) or world.knobs.capacity is not None:
            return
        began = world.clockwork.now
        world.clockwork.after(
            0.8 * world.knobs.lease_seconds, partial(self._judge_handover, began, others)
        )

    def _judge_handover(self, began: float, others: list[SimWorker]) -> None:
        world = self._world
        undisturbed = all(w.well for w in others) and not world.network.last_of_path
        if not undisturbed or world.table.lagging or world.knobs.stale_listing_one_in:
            return
        if any(f.kind not in ("deploy", "crash", "newcomer") for f in world.faults if f.at < began):
            return
        for stream in world.streams.values():
            for row in world.table.rows_of((APP, stream.name)).values():
                free = row.lease_owner is None and not row.completed and row.begun
                if free and world.table.taken_at.get((stream.name, row.shard_id), 0.0) < began:
                    raise NotHandedOver(f"{row.shard_id} after its owner left: {row}")

    # --- once nothing fails any more --------------------------------------------------------

    def unsettled(self, stream: SimStream) -> str:
        """Return what is not as it should be; empty if everything is."""
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
            elif shard.closed is not None and not full:
                return f"{shard.id} is closed and not completed: {lease}"
            elif not full and not self._acknowledged(stream, shard.id, lease):
                return f"{shard.id} is not acknowledged to its last record: {lease}"
        said = [w.coordinators[stream.name].state.unowned for w in workers]
        if full:
            return self._when_full(idle, said)
        if any(said):
            return f"says that shards have no owner, but there is room: {said}"
        if idle:
            return f"{idle} have no owner that lives: {rows[idle[0]]}"
        verdict = world.history.checker.verdict()
        return f"{verdict.lost} not delivered: {verdict.examples[-1]}" if verdict.lost else ""

    def _acknowledged(self, stream: SimStream, shard_id: str, row: LeaseRow) -> bool:
        state = stream.state
        last = stream.last_number(state.find_shard(shard_id)) if state is not None else None
        if last is None:
            return True
        if not isinstance(row.checkpoint, After):
            return isinstance(self._world.knobs.start, Latest)  # nothing came after the start
        return int(row.checkpoint.sequence.text) >= last

    def _when_full(self, idle: list[str], said: list[int]) -> str:
        """Workers at their capacity leave shards without an owner, and say so: no loss."""
        if idle and not all(said):
            return f"shards without an owner, and not everybody says so: {said}"
        self._world.excuse_all()
        return ""
