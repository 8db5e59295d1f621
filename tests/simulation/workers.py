"""A simulated worker: the shipped keeper half in one process, the shipped runner in another."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from shardline.consumer.worker import StreamWork, Worker
from shardline.errors import GapError
from shardline.leases.coordinator import Coordinator
from tests.simulation.clockwork import Actor, Machine, Process
from tests.simulation.link import SimLink
from tests.simulation.push_twin import service_of

if TYPE_CHECKING:
    from tests.simulation.world import World

APP = "app"


class SimWorker:
    """One worker of the app. It is started again after each death, under another attempt."""

    def __init__(self, number: int, name: str, world: World) -> None:
        self.number = number
        self.name = name
        self.world = world
        self.machine = Machine(world.clockwork, world.random)
        self.keeper: Process | None = None
        self.link: SimLink | None = None
        self.coordinators: dict[str, Coordinator] = {}
        self.troubled_until = 0.0
        """Until when it was stopped, cut off, or robbed of its runner."""
        self.leaving = False
        self._attempts = 0

    @property
    def up(self) -> bool:
        return self.keeper is not None and self.keeper.alive

    @property
    def well(self) -> bool:
        """Return true if nothing that happened to this worker can have cost it a lease."""
        return self.up and not self.leaving and self.was_well

    @property
    def was_well(self) -> bool:
        """Return true if nothing happened to this worker of late."""
        if self.keeper is None:
            return False
        since = max(self.keeper.began_at, self.troubled_until, self.machine.cut_off_until)
        return self.world.clockwork.now > since + 2 * self.world.knobs.lease_seconds

    def start(self) -> None:
        """Start the keeper process, which starts its runner."""
        if self.up:
            return
        if self.world.clockwork.now < self.world.night_ends_at:
            self.world.clockwork.at(self.world.night_ends_at, self.start)
            return
        self._attempts += 1
        world, knobs = self.world, self.world.knobs
        self.leaving = False
        keeper = self.keeper = Process(self.name, self.machine, world.calls, strict=True)
        worker = Worker(
            self._make_runner,
            stop_requested=lambda: self.leaving or bool(self._errors()),
            silence_seconds=knobs.silence_seconds,
            stop_seconds=knobs.stop_seconds,
            clock=keeper.clock,
        )
        attempt = f"{self.number}.{self._attempts}"
        self.coordinators = {
            name: Coordinator(
                world.table, stream.newest(), APP, name, self.name,
                start=knobs.start, times=knobs.times, capacity=knobs.capacity,
                goes_on_after_gaps=knobs.goes_on_after_gaps,
                work=StreamWork(name, worker),
                clock=keeper.clock, today=partial(world.today, self.machine), attempt=attempt,
                open_from=getattr(stream, "open_from", None),
            )
            for name, stream in world.streams.items()
        }  # fmt: skip
        worker.coordinators = self.coordinators
        for coordinator in self.coordinators.values():
            self._run(keeper, coordinator)
        Actor(keeper, "keep", worker.keep_steps(), on_end=self._ended).start()

    def _run(self, keeper: Process, coordinator: Coordinator) -> None:
        """Do what `Coordinator.start` does with threads."""
        coordinator._member.queued = deque()
        for name, steps in (
            ("heartbeats", coordinator.renew_steps()),
            ("rows", coordinator.table_steps()),
            ("listings", coordinator.listing_steps()),
        ):
            actor = Actor(keeper, f"{name} of {coordinator.owner}", steps, lock=coordinator._lock)
            coordinator._wakes[name] = actor  # type: ignore[assignment]
            actor.start()

    def _make_runner(self) -> SimLink:
        if self.keeper is None:
            raise AssertionError("a worker without a keeper")
        owner = next(iter(self.coordinators.values())).owner
        self.link = SimLink(
            self.world.job(owner), self.keeper, partial(service_of, self.world),
            self.world.knobs.link_seconds, self.world.judgement.gap_found,
        )  # fmt: skip
        return self.link

    def _errors(self) -> list[Exception]:
        errors = [coordinator.error() for coordinator in self.coordinators.values()]
        return [error for error in errors if error and not isinstance(error, GapError)]

    def _ended(self) -> None:
        """Called when the keeper's main loop is over: the process ends."""
        for error in self._errors():
            self.world.failed(f"{self.name} ended: {type(error).__name__}: {error}")
        if self.leaving:
            self.world.left(self)
        self.crash()

    # --- what happens to it -----------------------------------------------------------------

    def crash(self) -> None:
        """Kill the keeper; its runner follows."""
        if self.keeper is not None and self.keeper.alive:
            self.keeper.kill()
            if self.link is not None:
                self.link.keeper_died(signalled=self.world.knobs.death_signal)

    def kill_runner(self) -> None:
        if self.up and self.link is not None:
            self.link.process.kill()
            self._trouble(0.0)

    def pause_keeper(self, seconds: float) -> None:
        if self.up and self.keeper is not None:
            self.keeper.pause(seconds)
            self._trouble(seconds)

    def pause_runner(self, seconds: float) -> None:
        if self.up and self.link is not None:
            self.link.process.pause(seconds)
            self._trouble(seconds)

    def cut_off(self, seconds: float) -> None:
        """Let no call of this worker get through for a while."""
        until = self.world.clockwork.now + seconds
        self.machine.cut_off_until = max(self.machine.cut_off_until, until)
        self._trouble(seconds)

    def deploy(self) -> None:
        """Ask the worker to stop in order."""
        self.leaving = True

    def heal(self) -> None:
        self.machine.cut_off_until = min(self.machine.cut_off_until, self.world.clockwork.now)

    def _trouble(self, seconds: float) -> None:
        self.troubled_until = max(self.troubled_until, self.world.clockwork.now + seconds)
