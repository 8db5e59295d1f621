"""One run: a small world from a seed, its faults, and the judgement of what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from shardline.core.promise import PromiseChecker
from tests.simulation.clockwork import Clockwork, Network
from tests.simulation.faults import PEACEFUL, Fault, choose_faults
from tests.simulation.spark import APP, LEASE_SECONDS, Worker
from tests.simulation.stream import EPOCH, SimStream
from tests.simulation.table import SimTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.core.leasing.rows import LeaseRow

FAULTY_SECONDS = 8 * LEASE_SECONDS
HEALING_SECONDS = 14 * LEASE_SECONDS


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    faults: tuple[Fault, ...]
    failure: str
    """Empty if all promises were kept."""
    story: str
    seconds: float
    """Virtual time that passed."""
    delivered: int
    repeated: int
    stale: int


class LeaseStolen(Exception):
    """A lease of a worker that was well was taken as if it were dead."""


class WentBack(Exception):
    """A row that was made again forgot what its holder knew."""


class NotHandedOver(Exception):
    """A worker left in peace, and its shards stayed without an owner."""


class World:
    """Workers, one or two streams, a table and a network."""

    def __init__(self, seed: int, faults: tuple[Fault, ...] | None = None) -> None:
        self.seed = seed
        random = Random(seed)
        self.faults = choose_faults(random, FAULTY_SECONDS) if faults is None else faults
        self.clockwork = Clockwork()
        self.network = Network(Random(seed + 1))
        self._random = Random(seed + 2)
        self.checker = PromiseChecker()
        self.streams = {
            name: SimStream(
                name, self.clockwork, self._random, self.checker, random.randrange(1, 5)
            )
            for name in ("a", "b")[: random.choice((1, 1, 1, 2))]
        }
        self.table = SimTable(self.streams, Random(seed + 3))
        self.table.now = lambda: self.clockwork.now
        self.table.on_steal = self._judge_steal
        self.table.on_rewind = self._judge_rewind
        self._one_name = random.random() < 0.1
        self.capacity = random.choice((None, None, None, 2))
        self.workers: list[Worker] = []
        for i in range(random.randrange(2, 5) * len(self.streams)):
            self._add_worker(i, start_at=random.choice((0.0, 0.0, 5.0 * random.random())))
        self._producing = True
        self._produce()

    # --- running ----------------------------------------------------------------------------

    def run(self) -> Outcome:
        failure = ""
        try:
            for fault in self.faults:
                self.clockwork.at(fault.at, partial(self._strike, fault))
            self.clockwork.run_until(FAULTY_SECONDS)
            self._heal()
            failure = self._wait_until_settled()
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        verdict = self.checker.verdict()
        if not failure and not verdict.kept:
            failure = "; ".join(verdict.examples[:3])
        peaceful = not self._one_name and all(f.kind in PEACEFUL for f in self.faults)
        if not failure and verdict.repeated and peaceful:
            failure = f"{verdict.repeated} records repeated, though nothing went wrong"
        return Outcome(
            self.seed, self.faults, failure, self._story() if failure else "",
            self.clockwork.now, verdict.delivered, verdict.repeated, verdict.stale,
        )  # fmt: skip

    def today(self) -> datetime:
        return EPOCH + timedelta(seconds=self.clockwork.now)

    def _add_worker(self, number: int, start_at: float) -> None:
        stream = list(self.streams.values())[number % len(self.streams)]
        name = "w" if self._one_name else f"w{number}"
        worker = Worker(
            number, name, stream, self.table, self.clockwork, self.network, self._random,
            self.today, capacity=self.capacity,
        )  # fmt: skip
        worker.on_left = self._expect_successors
        self.workers.append(worker)
        self.clockwork.at(start_at, worker.start)

    def _produce(self) -> None:
        if self._producing:
            for stream in self.streams.values():
                stream.put()
            self.clockwork.at(self.clockwork.now + 0.25 + self._random.random(), self._produce)

    # --- faults -----------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        worker = self.workers[fault.target % len(self.workers)]
        stream = list(self.streams.values())[fault.target % len(self.streams)]
        space = (APP, stream.name)
        network = self.network
        if fault.kind in {"lose", "slow", "lag", "outage"}:
            network.troubled_until = max(network.troubled_until, fault.at + fault.seconds)
        match fault.kind:
            case "crash":
                worker.crash()
                self._later(fault, worker.start)
            case "pause":
                if worker.process is not None:
                    worker.process.pause(fault.seconds)
            case "cut off":
                if worker.process is not None:
                    worker.process.cut_off(2 * fault.seconds)
            case "hang":
                worker.hang()
            case "deploy":
                worker.deploy()
                self._later(fault, worker.start)
            case "lose":
                network.loss = 0.2
                self._later(fault, partial(setattr, network, "loss", 0.0))
            case "slow":
                network.slow_seconds = 2.0
                self._later(fault, partial(setattr, network, "slow_seconds", 0.0))
            case "lag":
                self.table.lagging = True
                self._later(fault, partial(setattr, self.table, "lagging", False))
            case "outage":
                network.outage = True
                self._later(fault, partial(setattr, network, "outage", False))
            case "drift":
                worker.rate = 1.1 if fault.target % 2 else 0.92
                worker.crash()
                self._later(fault, worker.start)
            case "split":
                stream.split()
            case "merge":
                stream.merge()
            case "storm":
                for _ in range(3):
                    self._random.choice((stream.split, stream.merge))()
            case "late listing":
                stream.lag_seconds = fault.seconds
            case "cut listing":
                stream.cut_listings = True
                self._later(fault, partial(setattr, stream, "cut_listings", False))
            case "expire":
                stream.expire()
            case "delete row":
                self.table.delete_some_row(space)
            case "delete header":
                self.table.delete_header(space)
            case "delete heartbeat":
                self.table._heartbeats.get(space, {}).clear()
            case "newcomer":
                self._add_worker(len(self.workers), self.clockwork.now)
            case "overlap":
                for each in self.workers:
                    each.overlap = 0.3
            case "recreate":
                stream.recreate()
            case _:
                raise ValueError(fault.kind)

    @property
    def _calm(self) -> bool:
        """Say whether the network has been well for so long that nobody can be mistaken."""
        return self.clockwork.now > self.network.troubled_until + 2 * LEASE_SECONDS

    def _judge_steal(self, old: LeaseRow, new: LeaseRow) -> None:
        """A worker that is well loses nothing to the expiry of its leases."""
        if self._is_well(old.lease_owner):
            raise LeaseStolen(f"{new.shard_id}, by {new.lease_owner} from {old.lease_owner}")

    def _judge_rewind(self, old: LeaseRow) -> None:
        """Who holds a lease whose row is deleted makes it again where it was."""
        if self._is_well(old.lease_owner):
            raise WentBack(f"{old.shard_id}, though {old.lease_owner} was well")

    def _is_well(self, owner: str | None) -> bool:
        """Say whether a worker has been well for so long that nobody can be mistaken."""
        for worker in self.workers:
            if worker.coordinator is not None and worker.coordinator.owner == owner:
                process = worker.process
                if worker.well and self._calm and process is not None and not self._one_name:
                    well_since = max(process.troubled_until, process.began_at)
                    return self.clockwork.now > well_since + 2 * LEASE_SECONDS
        return False

    def _expect_successors(self, left: Worker, owned: list[str]) -> None:
        """What a worker gave back on leaving is taken at once by the others."""
        others = [w for w in self.workers if w.stream is left.stream and w is not left]
        if not self._calm or self.capacity is not None or not all(w.well for w in others):
            return
        if left.stream.cut_listings:
            return  # who is to come may not know the shard: it is anybody's after a lease time
        process = left.process
        if left.hung or process is None or process.troubled_until > 0:
            return
        if left.started_at > self.clockwork.now - 2 * LEASE_SECONDS:
            return  # its last incarnation may have died just now, and counts until that is seen
        began, incarnation = self.clockwork.now, left.stream.incarnation
        self.clockwork.at(
            began + LEASE_SECONDS * 0.7,
            partial(self._judge_handover, began, others, left.stream, incarnation, owned),
        )

    def _judge_handover(
        self,
        began: float,
        others: list[Worker],
        stream: SimStream,
        incarnation: int,
        owned: list[str],
    ) -> None:
        undisturbed = self._calm and stream.incarnation == incarnation and not stream.cut_listings
        for worker in others:
            process = worker.process
            if not worker.well or process is None:
                return
            undisturbed &= began > max(process.troubled_until, process.began_at) + 2 * LEASE_SECONDS
        rows = self.table.rows_of((APP, stream.name))
        for shard_id in owned if undisturbed and others else ():
            row = rows.get(shard_id)
            shard = stream.shards.get(shard_id)
            if row is not None and not row.completed and shard is not None and not shard.gone:
                _, since = self.table.taken_at[stream.name, shard_id]
                if since < began - 1.0:  # nobody took it since
                    raise NotHandedOver(f"{shard_id} after its owner left: {row}")

    def _later(self, fault: Fault, action: Callable[[], None]) -> None:
        self.clockwork.at(fault.at + fault.seconds, action)

    def _heal(self) -> None:
        """End every fault; one worker of three that is down stays down for good."""
        self._producing = False
        self.network.loss = self.network.slow_seconds = 0.0
        self.network.outage = self.table.lagging = False
        for stream in self.streams.values():
            stream.cut_listings = False
            if not any(w.well for w in self.workers if w.stream is stream):
                worker = next(w for w in self.workers if w.stream is stream)
                worker.crash()
                worker.start()

    # --- judgement --------------------------------------------------------------------------

    def _wait_until_settled(self) -> str:
        end = self.clockwork.now + HEALING_SECONDS
        trouble = "never looked"
        while self.clockwork.now < end and trouble:
            self.clockwork.run_until(self.clockwork.now + LEASE_SECONDS / 2)
            trouble = next(filter(None, map(self._unsettled, self.streams.values())), "")
        return f"not settled after {HEALING_SECONDS:.0f}s: {trouble}" if trouble else ""

    def _unsettled(self, stream: SimStream) -> str:
        """Say what is not as it should be once nothing fails any more."""
        rows = self.table.rows_of((APP, stream.name))
        workers = [w for w in self.workers if w.well and w.stream is stream and w.coordinator]
        live = {w.coordinator.owner: 0 for w in workers if w.coordinator}
        for row in rows.values():
            current = row.stream_created_at == stream.created_at and not row.completed
            if current and row.lease_owner in live:
                live[row.lease_owner] += 1
        held = sorted(live.values())
        if held[-1] - held[0] > 1 or held[-1] > (self.capacity or held[-1]):
            return f"out of balance: {live}"
        full = self.capacity is not None and held[0] == self.capacity
        idle = []
        for shard in stream.shards.values():
            lease = rows.get(shard.id)
            if shard.gone or (lease is not None and lease.completed):
                continue
            if lease is None or lease.stream_created_at != stream.created_at:
                if shard.closed_at is None:
                    return f"{shard.id} is open and has no row"
            elif lease.lease_owner not in live:
                idle.append(shard.id)
            elif shard.closed_at is not None and not full:
                return f"{shard.id} is closed and not completed: {lease}"
        said = [w.coordinator.state.unowned for w in workers if w.coordinator]
        if not full:
            if any(said):
                return f"says that shards have no owner, but there is room: {said}"
            if idle:
                return f"{idle} have no owner that lives: {rows[idle[0]]}"
            prefix = f"{stream.name}."
            waiting = [
                n for n, h in self.checker._shards.items() if h.undelivered and n.startswith(prefix)
            ]
            return f"not all delivered: {waiting}" if waiting else ""
        if idle and not all(said):
            return f"shards without an owner, and not everybody says so: {said}"
        for shard in stream.shards.values():  # what nobody has room for stays unread: no loss
            self.checker.gap(stream.named(shard.id))
        return ""

    def _story(self) -> str:
        lines = [str(fault) for fault in self.faults]
        for worker in self.workers:
            if worker.coordinator is not None:
                lines.append(f"--- {worker.coordinator.owner}, {'up' if worker.up else 'down'}")
                lines.append(worker.coordinator.state.log.lines())
        return "\n".join(lines)


def simulate(seed: int, faults: tuple[Fault, ...] | None = None) -> Outcome:
    """Run one world from its seed."""
    return World(seed, faults).run()


def shrink(outcome: Outcome) -> Outcome:
    """Leave out faults one by one, as long as it still fails."""
    for fault in outcome.faults:
        without = simulate(outcome.seed, tuple(f for f in outcome.faults if f != fault))
        if without.failure:
            outcome = without
    return outcome
