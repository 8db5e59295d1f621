"""Virtual time, simulated processes, and actors that run steps in them."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Protocol

from shardline.consumer.loops import _Stopped
from shardline.errors import ShardlineError
from shardline.local.clock import Clock
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from random import Random

    from shardline.services.steps import Call, Steps

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
_EPOCH_MS = int(EPOCH.timestamp() * 1000)

Done = "Callable[[Any, Exception | None], None]"

MOST_EVENTS = 300_000
"""A world has some thousands. One with more is caught in a loop without pauses, or never ends."""


class TooManyEvents(Exception):
    """Something goes on without end."""


class Clockwork:
    """Runs what is due, in the order of time; equal times in the order of planning."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, time: float, action: Callable[[], None]) -> None:
        heappush(self._planned, (max(time, self.now), next(self._numbers), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        now = self.now
        time = now + seconds if seconds > 0 else now
        heappush(self._planned, (time, next(self._numbers), action))

    def run_until(self, end: float) -> None:
        planned = self._planned
        while planned and planned[0][0] <= end:
            self.now, _, action = heappop(planned)
            self.events += 1
            if self.events > MOST_EVENTS:
                raise TooManyEvents(f"{self.events} events at {self.now:.1f}")
            action()
        self.now = end


class ServiceClock(Clock):
    """The clock of a simulated service: virtual time."""

    def __init__(self, clockwork: Clockwork) -> None:
        super().__init__(EPOCH)
        self._clockwork = clockwork
        self.back_ms = 0
        """How far the machine that answers is behind: stamps of records may go back."""

    def now_ms(self) -> int:
        return _EPOCH_MS + int(self._clockwork.now * 1000) - self.back_ms


class Machine:
    """Where a worker's two processes run: they share a clock, which may be fast or slow."""

    def __init__(self, clockwork: Clockwork, random: Random) -> None:
        self.clockwork = clockwork
        self.random = random
        self.rate = 1.0
        self._offset = 1000.0 * random.random()
        self._since = 0.0
        self.cut_off_until = 0.0
        self.wall_clock_off_seconds = 0.0
        """How far what it takes for the time of day differs from the service's."""

    def clock(self) -> float:
        """Return seconds on this machine's own clock, which never stands still."""
        return self._offset + (self.clockwork.now - self._since) * self.rate

    def drift(self, rate: float) -> None:
        """Let the clock run at another rate from now on."""
        self._offset, self._since, self.rate = self.clock(), self.clockwork.now, rate

    @property
    def cut_off(self) -> bool:
        return self.clockwork.now < self.cut_off_until


class Performer(Protocol):
    """Makes calls for actors: sooner, later, or never."""

    def perform(self, process: Process, call: Call, done: Any) -> None:
        """Make a call, and pass `done` its value or its error when it is over."""


class Process:
    """Something whose actors can be stopped for a while as a whole, or killed."""

    def __init__(
        self, name: str, machine: Machine, performer: Performer, *, strict: bool = False
    ) -> None:
        self.name = name
        self.strict = strict
        """True if no error at all may end an actor of this process."""
        self.machine = machine
        self.performer = performer
        self.clock = machine.clock
        self.began_at = machine.clockwork.now
        self.alive = True
        self.paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Stop everything in this process for a while, as SIGSTOP does."""
        self.paused_until = max(self.paused_until, self.machine.clockwork.now + seconds)

    def kill(self) -> None:
        """End everything where it is. Requests that are under way are not called back."""
        self.alive = False

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in this process after a time on its clock; later if it is stopped then."""
        wait = seconds / self.machine.rate
        self.machine.clockwork.after(wait, partial(self.do, action))

    def do(self, action: Callable[[], None]) -> None:
        """Do something in this process: now, or when it goes on; never once it is dead."""
        if not self.alive:
            return
        clockwork = self.machine.clockwork
        if clockwork.now < self.paused_until:
            jitter = 0.01 * self.machine.random.random()
            clockwork.at(self.paused_until + jitter, partial(self.do, action))
        else:
            action()


class Actor:
    """Runs steps in a process. Implements `consumer.loops.Loop`.

    An error that is not one of ours ends the whole simulation: nobody expects it.
    """

    def __init__(
        self,
        process: Process,
        name: str,
        steps: Steps[Any],
        *,
        stopped: Callable[[], bool] = lambda: False,
        lock: AbstractContextManager[Any] | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.call_began: float | None = None
        self.failure: BaseException | None = None
        self.ended = False
        self._process = process
        self._steps = steps
        self._stopped = stopped
        self._lock = lock if lock is not None else nullcontext()
        self._on_end = on_end
        self._turn = 0
        self._paused = False
        self._woken = False

    def start(self) -> None:
        self._plan(0.0, partial(next, self._steps))

    def wake(self) -> None:
        """End the pause at hand, or the next one."""
        if self._paused:
            self._paused = False
            self._plan(0.0, self._after_pause)
        else:
            self._woken = True

    def set(self) -> None:
        """Wake: a coordinator wakes its threads by an event each."""
        self.wake()

    def _plan(self, seconds: float, resume: Callable[[], Any]) -> None:
        self._turn += 1
        self._process.after(seconds, partial(self._go, self._turn, resume))

    def _go(self, turn: int, resume: Callable[[], Any]) -> None:
        if turn != self._turn or self.ended:
            return
        self._turn += 1
        self._paused = False
        self.call_began = None
        try:
            with self._lock:
                step = resume()
        except (StopIteration, _Stopped):
            self._end()
        except ShardlineError as error:
            if self._process.strict:
                raise
            self.failure = error
            self._end()
        else:
            if isinstance(step, Pause):
                self._pause(step.seconds)
            else:
                self.call_began = self._process.clock()
                self._process.performer.perform(
                    self._process, step, partial(self._answered, self._turn)
                )

    def _pause(self, seconds: float) -> None:
        woken, self._woken = self._woken, False
        self._paused = True
        self._plan(0.0 if woken else seconds, self._after_pause)

    def _after_pause(self) -> Any:
        self._woken = False
        if self._stopped():
            return self._steps.throw(_Stopped())
        return self._steps.send(None)

    def _answered(self, turn: int, value: Any, error: Exception | None) -> None:
        if error is not None:
            resume: Callable[[], Any] = partial(self._steps.throw, error)
        else:
            resume = partial(self._steps.send, value)
        self._process.do(partial(self._go, turn, resume))

    def _end(self) -> None:
        self.ended = True
        self._on_end()
