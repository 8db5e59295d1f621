"""A loop of steps in a thread of its own, which can be woken and watched."""

from __future__ import annotations

from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, Protocol

from shardline.services.clock import boot_seconds
from shardline.services.steps import Pause, relayed, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from shardline.services.steps import Call, Steps


class Loop(Protocol):
    """Steps that run by themselves. A simulator has loops of its own."""

    @property
    def call_began(self) -> float | None:
        """When the running call began; None between calls."""

    @property
    def failure(self) -> BaseException | None:
        """What ended the steps, if they did not end by themselves."""

    @property
    def ended(self) -> bool:
        """Whether the steps are over."""

    def start(self) -> None:
        """Begin."""

    def wake(self) -> None:
        """End the current pause, or the next one."""


class _Stopped(Exception):
    """Thrown into steps that were stopped while they paused."""


class ThreadLoop:
    """Runs steps in a daemon thread. `lock` is free during each call."""

    def __init__(
        self,
        name: str,
        steps: Steps[None],
        lock: AbstractContextManager[Any],
        stopped: Callable[[], bool],
    ) -> None:
        self.call_began: float | None = None
        self.failure: BaseException | None = None
        self.ended = False
        self._steps = steps
        self._lock = lock
        self._stopped = stopped
        self._wake = Event()
        self._thread: Final = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """End the current pause, or the next one."""
        self._wake.set()

    def _run(self) -> None:
        steps = relayed(self._steps, outgoing=self._watched)
        try:
            run(steps, lock=self._lock, sleep=self._pause)
        except _Stopped:
            pass
        except BaseException as error:
            self.failure = error
        self.ended = True

    def _watched(self, step: Call | Pause) -> Call | Pause:
        return step if isinstance(step, Pause) else partial(self._call, step)

    def _call(self, call: Call) -> Any:
        self.call_began = boot_seconds()
        try:
            return call()
        finally:
            self.call_began = None

    def _pause(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()
        if self._stopped():
            raise _Stopped
