"""One virtual clock, and processes whose every call can be delayed, lost or applied late."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from shardline.errors import ServiceUnreachable, ShardlineError
from shardline.leases.memory import MemoryLeaseTable
from shardline.leases.port import TableUnavailable
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True)
class Sleep:
    """A process waits, on its own clock."""

    seconds: float


Activity = Generator[Callable[[], Any] | Sleep | Pause, Any, Any]


class Clockwork:
    """Runs what is due, in the order of time; equal times in the order of planning."""

    def __init__(self) -> None:
        self.now = 0.0
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._planned, (max(time, self.now), self._count, action))

    def run_until(self, end: float) -> None:
        while self._planned and self._planned[0][0] <= end:
            self.now, _, action = heapq.heappop(self._planned)
            action()
        self.now = end


@dataclass(slots=True)
class Network:
    """How calls fare at the moment. Faults set these and take them back."""

    random: Random
    loss: float = 0.0
    """Chance that a request or its reply is lost."""
    slow_seconds: float = 0.0
    outage: bool = False
    timeout_seconds: float = 1.0

    troubled_until: float = 0.0
    """When the last fault of the network ends."""

    def fate(self, cut_off: bool) -> tuple[float, float, bool, bool]:
        """Return: seconds until applied, seconds from then to the reply, applied?, answered?

        Less than nothing to the reply: the caller gives up before the request is applied.
        """
        random = self.random
        there = 0.002 + 0.02 * random.random()
        if self.slow_seconds and random.random() < 0.5:
            there += self.slow_seconds * random.random()
        back = 0.02 * random.random() if random.random() < 0.2 else 0.0
        if self.outage or cut_off:
            return there, 0.0, False, False
        if self.loss and random.random() < self.loss:
            if random.random() < 0.3:
                late = 3.0 * random.random()
                return self.timeout_seconds + late, -late, True, False
            return there, self.timeout_seconds, random.random() < 0.5, False
        return there, back, True, True


class Process:
    """Something with activities that can be paused as a whole, or killed."""

    def __init__(self, clockwork: Clockwork, network: Network, rate: float = 1.0) -> None:
        self._clockwork = clockwork
        self._network = network
        self._rate = rate
        self._offset = 1000.0 * network.random.random()
        self.began_at = clockwork.now
        self.alive = True
        self.paused_until = 0.0
        self.cut_off_until = 0.0
        self._activities: dict[Activity, None] = {}

    def clock(self) -> float:
        """Tell this process's own monotonic seconds."""
        return self._offset + self._clockwork.now * self._rate

    def spawn(self, activity: Activity) -> None:
        self._activities[activity] = None
        self._step(activity, partial(next, activity))

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self._clockwork.now + seconds)

    def cut_off(self, seconds: float) -> None:
        """Let no call of this process get through for a while."""
        self.cut_off_until = max(self.cut_off_until, self._clockwork.now + seconds)

    @property
    def troubled_until(self) -> float:
        return max(self.paused_until, self.cut_off_until)

    @property
    def paused(self) -> bool:
        return self._clockwork.now < self.paused_until

    def kill(self) -> None:
        """End all activities where they are; requests that are under way are not called back."""
        self.alive = False
        activities, self._activities = self._activities, {}
        for activity in activities:
            with suppress(ValueError):  # the one that is running right now ends by itself
                activity.close()

    def _step(self, activity: Activity, advance: Callable[[], Any]) -> None:
        if not self.alive:
            return
        if self.paused:
            self._clockwork.at(self.paused_until, partial(self._step, activity, advance))
            return
        try:
            wish = advance()
        except StopIteration:
            self._activities.pop(activity, None)
            return
        resume = partial(self._resume, activity)
        if isinstance(wish, Sleep | Pause):
            due = self._clockwork.now + wish.seconds / self._rate
            self._clockwork.at(due, partial(resume, None, None))
        else:
            self._call(wish, resume)

    def _resume(self, activity: Activity, value: Any, error: Exception | None) -> None:
        if error is not None:
            self._step(activity, partial(activity.throw, error))
        else:
            self._step(activity, partial(activity.send, value))

    def _call(
        self, call: Callable[[], Any], resume: Callable[[Any, Exception | None], None]
    ) -> None:
        cut_off = self._clockwork.now < self.cut_off_until
        there, back, applied, answered = self._network.fate(cut_off)

        def arrive() -> None:
            value, error = None, None
            if applied:
                try:
                    value = call()
                except Exception as raised:
                    error = raised
            if not answered:
                value, error = None, _no_answer(call)
            if back < 0:
                return
            if back:
                self._clockwork.at(self._clockwork.now + back, partial(resume, value, error))
            else:
                resume(value, error)

        now = self._clockwork.now
        self._clockwork.at(now + there, arrive)
        if back < 0:
            self._clockwork.at(now + there + back, partial(resume, None, _no_answer(call)))


def _no_answer(call: Callable[[], Any]) -> ShardlineError:
    """Return what a caller sees of a call that got no answer: the table and the stream differ."""
    target = getattr(getattr(call, "func", call), "__self__", None)
    if isinstance(target, MemoryLeaseTable):
        return TableUnavailable("no answer")
    return ServiceUnreachable("no answer")
