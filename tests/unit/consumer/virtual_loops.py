"""Loops under a virtual clock: calls take no time unless told, pauses take virtual time."""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, Any

from shardline.services.steps import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.local.clock import Clock
    from shardline.services.steps import Steps


class VirtualLoop:
    """Implements `consumer.loops.Loop`."""

    def __init__(
        self, loops: VirtualLoops, name: str, steps: Steps[None], stopped: Callable[[], bool]
    ) -> None:
        self.name = name
        self.call_began: float | None = None
        self.failure: BaseException | None = None
        self.ended = False
        self._loops = loops
        self._steps = steps
        self._stopped = stopped
        self._turn = 0
        self._paused = False

    def start(self) -> None:
        self._plan(0.0, partial(next, self._steps))

    def wake(self) -> None:
        if self._paused:
            self._paused = False
            self._plan(0.0, self._after_pause)

    def _plan(self, seconds: float, resume: Callable[[], Any]) -> None:
        self._turn += 1
        self._loops.at(self._loops.now + seconds, partial(self._go, self._turn, resume))

    def _go(self, turn: int, resume: Callable[[], Any]) -> None:
        if turn != self._turn or self.ended:
            return
        self._paused = False
        try:
            step = resume()
            while not isinstance(step, Pause):
                if self._loops.hangs(self.name, step):
                    self.call_began = self._loops.now
                    return
                try:
                    value = step()
                except Exception as error:
                    step = self._steps.throw(error)
                else:
                    step = self._steps.send(value)
        except StopIteration:
            self.ended = True
        except BaseException as error:
            self.failure, self.ended = error, True
        else:
            self._paused = True
            self._plan(step.seconds, self._after_pause)
            self._paused = True

    def _after_pause(self) -> Any:
        if self._stopped():
            self._steps.close()
            raise StopIteration
        return self._steps.send(None)


class VirtualLoops:
    """Runs all loops in the order of virtual time, with the service's clock beside it."""

    def __init__(self, clock: Clock) -> None:
        self.now = 1000.0
        self.hangs: Callable[[str, Callable[[], Any]], bool] = lambda name, call: False
        self._clock = clock
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def make(self, name: str, steps: Steps[None], stopped: Callable[[], bool]) -> VirtualLoop:
        return VirtualLoop(self, name, steps, stopped)

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._planned, (time, self._count, action))

    def run(self, seconds: float) -> None:
        """Let this much time pass."""
        end = self.now + seconds
        while self._planned and self._planned[0][0] <= end:
            time, _, action = heapq.heappop(self._planned)
            self._advance(time)
            action()
        self._advance(end)

    def _advance(self, time: float) -> None:
        if time > self.now:
            self._clock.advance(time - self.now)
            self.now = time
