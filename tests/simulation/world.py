"""One run: a small world from a seed, its faults, and the judgement of what came of it."""

from __future__ import annotations

import gc
import pickle
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

from shardline.consumer.job import Job, LeasePlace, StreamSource
from tests.simulation.calls import Calls, Network, Trouble
from tests.simulation.clockwork import EPOCH, Clockwork, Machine
from tests.simulation.faults import (
    PEACEFUL,
    Fault,
    choose_faults,
    choose_handovers,
    choose_switch,
)
from tests.simulation.history import Delivered, History
from tests.simulation.judgement import Judgement
from tests.simulation.knobs import choose_knobs, choose_more, choose_service, choose_size
from tests.simulation.second_checker import Findings, check
from tests.simulation.stream import SimStream
from tests.simulation.table import SimTable
from tests.simulation.table_stream import SimTableStream
from tests.simulation.user import CONSUMERS, UserCode, UserConsumer, keys_in, stream_of
from tests.simulation.workers import APP, SimWorker

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.consumer.consumer import ShardBatch
    from shardline.core.promise import Verdict
    from tests.simulation.history import Event
    from tests.simulation.knobs import Knobs

HEALING_LEASES = 20
HEALING_SECONDS = 100.0
"""Besides: a runner that died often is started again after 30 s, a read is tried again after 30."""

_tokens = count()


class Failed(Exception):
    """Something happened that must never happen."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    faults: tuple[Fault, ...]
    failure: str
    """Empty if all promises were kept."""
    story: str
    seconds: float
    """Virtual time that passed."""
    healed_after: float
    """How many lease times after the last fault everything was as it should be."""
    delivered: int
    repeated: int
    stale: int
    events: int
    cpu_seconds: float = field(compare=False, repr=False)


class Plan(NamedTuple):
    """What a seed chooses before its world runs."""

    peaceful: bool
    knobs: Knobs
    faults: tuple[Fault, ...]
    random: Random
    faulty_seconds: float
    """For how long things go wrong; nights are not counted."""


def plan_of(seed: int, knobs: Knobs | None = None, faulty_leases: float | None = None) -> Plan:
    """Return what a seed chooses, but for the knobs and the length that are given.

    With a length alone the size of the world is left as seeds chose it before sizes were drawn.
    """
    random = Random(seed)
    peaceful = random.random() < 0.15
    chosen = choose_knobs(random, peaceful=peaceful)
    if knobs is None:
        knobs = choose_more(Random(f"{seed}"), chosen, peaceful=peaceful)
    if faulty_leases is None:
        knobs, faulty_leases = choose_size(Random(f"{seed} size"), knobs)
        knobs = choose_service(Random(f"{seed} table"), knobs)
    seconds = faulty_leases * knobs.lease_seconds
    faults = choose_faults(random, seconds, knobs.lease_seconds, peaceful=peaceful)
    handovers = choose_handovers(Random(f"{seed} handovers"), seconds, knobs.lease_seconds)
    faults += handovers
    if knobs.tables:
        faults = tuple(f for f in faults if f.kind != "night")
        faults += choose_switch(Random(f"{seed} switch"), seconds, peaceful=peaceful)
    return Plan(peaceful, knobs, tuple(sorted(faults)), random, seconds)


class World:
    """Workers, one or two streams, a table and a network."""

    def __init__(
        self,
        seed: int,
        faults: tuple[Fault, ...] | None = None,
        knobs: Knobs | None = None,
        faulty_leases: float | None = None,
    ) -> None:
        self.seed = seed
        plan = plan_of(seed, knobs, faulty_leases)
        random, self.peaceful = plan.random, plan.peaceful
        self.knobs = knobs = plan.knobs
        self.clockwork = Clockwork()
        self.faulty_seconds = plan.faulty_seconds
        self.faults = plan.faults if faults is None else faults
        self.night_ends_at = 0.0
        """Nobody starts a worker before: hours of polling would take minutes to simulate."""
        if any(fault.kind == "night" for fault in self.faults):
            self.knobs = knobs = replace(knobs, goes_on_after_gaps=True)
        self.random = Random(seed + 1)
        self.history = History()
        kind = SimTableStream if knobs.tables else SimStream
        self.streams = {
            name: kind(name, self.clockwork, self.random, self.history, knobs.shards)
            for name in ("a", "b")[: knobs.streams]
        }
        for stream in self.streams.values():
            stream.configure(knobs)
        self.table = SimTable(self.streams, self.history, self.random)
        self.table.now = lambda: self.clockwork.now
        self.network = Network(
            self.random, min(3.0, knobs.lease_seconds / 3), 5.0, noise=knobs.stream_noise
        )
        self.user = UserCode(
            self.random, knobs.work_seconds, knobs.failure_rate,
            hang_seconds=knobs.stall_seconds * random.choice((0.8, 1.5, 1e9)),
        )  # fmt: skip
        self.calls = Calls(self.network, self.user)
        self.story: list[str] = []
        self.judgement = Judgement(self)
        self._token = next(_tokens)
        self.workers: list[SimWorker] = []
        for _ in range(knobs.workers):
            self._add_worker(start_at=random.choice((0.0, 0.0, 5.0 * random.random())))
        self._producing = True
        for stream in self.streams.values():
            self._produce(stream)

    # --- running ----------------------------------------------------------------------------

    def run(self) -> Outcome:
        began, failure, healed_after = process_time(), "", 0.0
        UserConsumer.worlds[self._token] = self._deliver
        try:
            nights_seconds = 0.0
            for fault in self.faults:
                self.clockwork.at(nights_seconds + fault.at, partial(self._strike, fault))
                nights_seconds += fault.night_seconds
            self.clockwork.run_until(nights_seconds + self.faulty_seconds)
            self._heal()
            healed_after = self._wait_until_settled()
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            if not isinstance(error, Failed):
                self._note_traceback(error)
        finally:
            del UserConsumer.worlds[self._token]
        verdict = self.history.checker.verdict()
        if verdict.breaches and (not failure or not verdict.lost):
            failure = "; ".join((*verdict.examples[:3], failure))
        if not failure and not agree(verdict, check(self.history.events)):
            failure = f"the second checker says {check(self.history.events)}, the first {verdict}"
        quiet = all(fault.kind in PEACEFUL for fault in self.faults)
        if not failure and verdict.repeated and quiet and self.peaceful:
            failure = f"{verdict.repeated} records repeated, though nothing went wrong"
        return Outcome(
            self.seed, self.faults, failure, self._story() if failure else "",
            self.clockwork.now, healed_after, verdict.delivered, verdict.repeated, verdict.stale,
            self.clockwork.events, process_time() - began,
        )  # fmt: skip

    def job(self, owner: str) -> Job:
        """Return the job of one worker: its deliveries are known by its name."""
        knobs = self.knobs
        return Job(
            tuple(StreamSource(f"kinesis://{name}") for name in self.streams), APP,
            LeasePlace("memory://"), pickle.dumps(CONSUMERS[knobs.lanes](self._token, owner)),
            limits=knobs.limits, memory_bytes=knobs.memory_bytes,
            stall_seconds=knobs.stall_seconds, go_on_after_gaps=knobs.goes_on_after_gaps,
        )  # fmt: skip

    def today(self, machine: Machine) -> datetime:
        """Return what the wall clock of a machine shows."""
        return EPOCH + timedelta(seconds=self.clockwork.now + machine.wall_clock_off_seconds)

    def tell(self, what: str) -> None:
        self.story.append(f"{self.clockwork.now:8.2f} {what}")

    def failed(self, what: str) -> None:
        raise Failed(what)

    def left(self, worker: SimWorker) -> None:
        """Called when a worker stopped in order."""
        self.tell(f"{worker.name} has left")
        self.judgement.expect_successors(worker)

    def _add_worker(self, start_at: float) -> None:
        number = len(self.workers)
        worker = SimWorker(number, "w" if self.knobs.one_name else f"w{number}", self)
        self.workers.append(worker)
        self.clockwork.at(start_at, worker.start)

    def _produce(self, stream: SimStream) -> None:
        if self._producing:
            stream.put()
            night = self.clockwork.now < self.night_ends_at
            wait = (3600.0 if night else self.knobs.put_seconds) * 2 * self.random.random()
            self.clockwork.after(wait, partial(self._produce, stream))

    def _deliver(self, batch: ShardBatch, owner: str) -> None:
        """Record what a consumer was given."""
        stream = self.streams[stream_of(batch)]
        keys, shard_id = keys_in(batch), batch.shard_id
        numbers = batch.arrow.column("sequenceNumber").to_pylist()
        refs = [stream.ref(k, number, shard_id) for k, number in zip(keys, numbers, strict=True)]
        shard = stream.named(batch.shard_id, refs[0][0])
        self.history.add(Delivered(shard, batch.fence, tuple(ref for _, ref in refs), owner))

    # --- faults -----------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        self.tell(str(fault))
        worker = self.workers[fault.target % len(self.workers)]
        stream = list(self.streams.values())[fault.target % len(self.streams)]
        space = (APP, stream.name)
        match fault.kind:
            case "crash":
                worker.crash()
                self._later(fault, worker.start)
            case "kill runner":
                worker.kill_runner()
            case "pause keeper":
                worker.pause_keeper(fault.seconds)
            case "pause runner":
                worker.pause_runner(fault.seconds)
            case "sleep":
                worker.pause_keeper(fault.seconds)
                worker.pause_runner(fault.seconds)
            case "cut off":
                worker.cut_off(2 * fault.seconds)
            case "hang":
                self.user.hang_next(worker.name)
            case "deploy":
                worker.deploy()
                self._later(fault, partial(self._start_when_down, worker))
            case "newcomer":
                self._add_worker(self.clockwork.now)
            case "drift":
                worker.machine.drift(1.1 if fault.target % 2 else 0.92)
            case "wall clock":
                hours = (-30.0, -1.0, 1.0, 30.0)[fault.target % 4]
                worker.machine.wall_clock_off_seconds = 3600 * hours
            case "night":
                self._sleep_all(fault.night_seconds, stream)
            case "table lags":
                self.table.lagging = True
                self._later(fault, partial(setattr, self.table, "lagging", False))
            case "split":
                stream.split()
            case "merge":
                stream.merge()
            case "storm":
                for i in range(4):
                    change = self.random.choice((stream.split, stream.merge))
                    self.clockwork.after(0.3 * i, change)
            case "stale listing":
                stream.make_listings_stale(1 + fault.target % 2, lookups=fault.target % 3 > 0)
                self._later(fault, stream.end_stale_listings)
            case "open parent":
                stream.show_parents_open()
                self._later(fault, stream.end_open_parents)
            case "recreate":
                stream.delete()
                deleted_seconds = self.knobs.status_delay_ms / 1000  # DELETING until then
                self.clockwork.after(deleted_seconds + fault.seconds, stream.create)
            case "delete row":
                self.table.delete_some_row(space)
            case "delete header":
                self.table.delete_header(space)
            case "delete heartbeat":
                self.table.delete_heartbeats(space)
            case _:
                self._trouble(fault, stream)

    def _trouble(self, fault: Fault, stream: SimStream) -> None:
        kind, _, path = fault.kind.partition(": ")
        if path == "one shard":
            state = stream.state
            if state is None or not state.open_shards:
                return
            path = state.open_shards[fault.target % len(state.open_shards)].id
        self.network.add(Trouble(kind, path, self.clockwork.now + fault.seconds))

    def _sleep_all(self, seconds: float, stream: SimStream) -> None:
        """Let all workers be down for so long that records may expire unread."""
        self.night_ends_at = self.clockwork.now + seconds
        for worker in self.workers:
            worker.crash()
            self.clockwork.after(seconds, worker.start)
        for _ in range(self.random.randrange(3)):
            change = self.random.choice((stream.split, stream.merge))
            self.clockwork.after(seconds * self.random.random(), change)

    def _start_when_down(self, worker: SimWorker) -> None:
        if worker.up and worker.leaving:
            self.clockwork.after(0.5, partial(self._start_when_down, worker))
        else:
            worker.start()

    def _later(self, fault: Fault, action: Callable[[], None]) -> None:
        self.clockwork.after(fault.seconds, action)

    def _heal(self) -> None:
        """End every fault; a worker that is down stays down if another one is there."""
        self.tell("healing")
        self._producing = False
        self.network.troubles.clear()
        self.network.noise = 0.0
        self.table.lagging = False
        self.user.heal()
        for stream in self.streams.values():
            stream.heal()
        for worker in self.workers:
            worker.heal()
        if not any(worker.up and not worker.leaving for worker in self.workers):
            if not self.peaceful:  # one that leaves in peace is not killed for it
                self.workers[0].crash()
            self._start_when_down(self.workers[0])
        if any(fault.kind == "hang" for fault in self.faults):
            for worker in self.workers:
                self._start_when_down(worker)

    # --- judgement --------------------------------------------------------------------------

    def _wait_until_settled(self) -> float:
        """Return after how many lease times everything was as it should be."""
        lease, began = self.knobs.lease_seconds, self.clockwork.now
        end = began + HEALING_LEASES * lease + HEALING_SECONDS
        trouble = "never looked"
        while trouble and self.clockwork.now < end:
            self.clockwork.run_until(self.clockwork.now + lease / 2)
            trouble = self.judgement.unsettled()
        healed_after = (self.clockwork.now - began) / lease
        if trouble:
            raise Failed(f"not settled after {healed_after:.0f} lease times: {trouble}")
        return healed_after

    def _note_traceback(self, error: Exception) -> None:
        import traceback

        self.story.extend(traceback.format_exception(error)[-4:])

    def _story(self) -> str:
        lines = [str(self.knobs), *self.story]
        for worker in self.workers:
            for stream_name, coordinator in worker.coordinators.items():
                state = "up" if worker.up else "down"
                lines.append(f"--- {coordinator.owner} on {stream_name}, {state}")
                lines.append(coordinator.state.log.lines())
        return "\n".join(lines)


def agree(verdict: Verdict, found: Findings) -> bool:
    """Return true if the two checkers came to the same result."""
    kinds = {breach.name: count for breach, count in verdict.breaches.items()}
    return kinds == dict(+found.kinds) and (verdict.lost, verdict.repeated, verdict.stale) == (
        found.lost, found.repeated, found.stale,
    )  # fmt: skip


def simulate(
    seed: int, faults: tuple[Fault, ...] | None = None, faulty_leases: float | None = None
) -> Outcome:
    """Run one world from its seed; see `plan_of` for the length.

    Without the collector of cycles: it would close the steps of killed processes at a moment that
    no seed chooses.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return World(seed, faults, faulty_leases=faulty_leases).run()
    finally:
        gc.collect(0)  # what the next world needs is in the cache then
        if collects:
            gc.enable()


def shrink(outcome: Outcome) -> Outcome:
    """Leave out faults one by one, as long as it still fails."""
    for fault in outcome.faults:
        without = simulate(outcome.seed, tuple(f for f in outcome.faults if f != fault))
        if without.failure:
            outcome = without
    return outcome


def history_of(seed: int) -> tuple[Event, ...]:
    """Return what happened in one world."""
    world = World(seed)
    world.run()
    return tuple(world.history.events)
