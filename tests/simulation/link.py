"""A simulated runner process, and the link between it and its keeper."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from shardline.consumer.messages import GapFound
from shardline.consumer.runner import PULSE_SECONDS, Runner
from tests.simulation.clockwork import Actor, Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.consumer.job import Job
    from shardline.consumer.messages import FromRunner, ToRunner
    from shardline.services.port import StreamService
    from shardline.services.steps import Steps

_WAIT_SECONDS = 0.05


class SimLink:
    """A runner as its keeper sees it. Implements `consumer.worker.RunnerLink`.

    Messages arrive in order, after a moment. What was sent before a death arrives before the end
    of the connection is seen.
    """

    def __init__(
        self,
        job: Job,
        keeper: Process,
        connect_to: Callable[[str, datetime | None], StreamService],
        slowest_seconds: float,
        on_gap: Callable[[GapFound], None],
    ) -> None:
        machine = keeper.machine
        self._slowest_seconds = slowest_seconds
        self._on_gap = on_gap
        self.process = Process(keeper.name, machine, keeper.performer)
        self._random = machine.random
        self._clockwork = machine.clockwork
        self._keeper = keeper
        self._runner = Runner(
            job, self._from_runner, connect_to=connect_to,
            make_loop=self._make_loop,
            clock=machine.clock,
        )  # fmt: skip
        self._inbox: deque[ToRunner] = deque()
        self._outbox: deque[FromRunner] = deque()
        self._reaches_runner_at = self._clockwork.now + 0.1 + self._random.random()
        self._reaches_keeper_at = 0.0
        self._arrived = 0
        self._receiving: tuple[int, Any] | None = None
        self._receive_count = 0
        self.process.after(1.0, self._watch)

    # --- the keeper's side ------------------------------------------------------------------

    def send(self, message: ToRunner) -> None:
        if not self._keeper.alive:
            return
        self._inbox.append(message)
        self._reaches_runner_at = max(self._reaches_runner_at, self._clockwork.now + self._delay())
        self._clockwork.at(self._reaches_runner_at, partial(self.process.do, self._handle))

    def receive(self, timeout_seconds: float) -> FromRunner | None:
        raise NotImplementedError("performed")

    def kill(self) -> None:
        raise NotImplementedError("performed")

    def wait(self, timeout_seconds: float) -> None:
        raise NotImplementedError("performed")

    def perform(self, name: str, arguments: tuple[Any, ...], done: Any) -> None:
        """Make one of the three calls above take its time."""
        match name:
            case "receive":
                self._receive_count += 1
                self._receiving = (self._receive_count, done)
                self._clockwork.after(arguments[0], partial(self._time_out, self._receive_count))
                self._offer()
            case "kill":
                self.process.kill()
                self._clockwork.after(0.01, partial(done, None, None))
            case _:
                self._wait(self._clockwork.now + arguments[0], done)

    def keeper_died(self, *, signalled: bool) -> None:
        """End the runner: at once where the system signals it, else when it sees the link's end."""
        ends_at = self._clockwork.now if signalled else self.process.paused_until
        self._clockwork.at(ends_at + 0.02 * self._random.random(), self.process.kill)

    def _wait(self, until: float, done: Any) -> None:
        if self._runner.finished.is_set() or not self.process.alive or self._clockwork.now >= until:
            self.process.kill()
            done(None, None)
        else:
            self._clockwork.after(_WAIT_SECONDS, partial(self._wait, until, done))

    def _offer(self) -> None:
        if self._receiving is None:
            return
        if self._arrived:
            self._arrived -= 1
            self._answer(self._outbox.popleft(), None)
        elif not self.process.alive and not self._outbox:
            self._answer(None, EOFError("the other process is gone"))

    def _time_out(self, count: int) -> None:
        if self._receiving is not None and self._receiving[0] == count:
            self._answer(None, None)

    def _answer(self, message: FromRunner | None, error: Exception | None) -> None:
        if self._receiving is not None:
            done, self._receiving = self._receiving[1], None
            done(message, error)

    # --- the runner's side ------------------------------------------------------------------

    def _handle(self) -> None:
        if self._inbox:
            self._runner.handle(self._inbox.popleft())

    def _watch(self) -> None:
        self._runner.watch()
        if self._runner.finished.is_set():
            self.process.kill()
        else:
            self.process.after(PULSE_SECONDS, self._watch)

    def _from_runner(self, message: FromRunner) -> None:
        if not self.process.alive:
            return
        if isinstance(message, GapFound):
            self._on_gap(message)
        self._outbox.append(message)
        self._reaches_keeper_at = max(self._reaches_keeper_at, self._clockwork.now + self._delay())
        self._clockwork.at(self._reaches_keeper_at, self._arrive)

    def _arrive(self) -> None:
        self._arrived += 1
        self._offer()

    def _make_loop(self, name: str, steps: Steps[None], stopped: Callable[[], bool]) -> Actor:
        return Actor(self.process, name, steps, stopped=stopped)

    def _delay(self) -> float:
        return self._slowest_seconds * self._random.random() ** 4
