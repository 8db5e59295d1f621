"""Work written as steps: a generator yields each call that it needs, and each pause.

The code that runs the steps makes the calls. A thread makes them at once (`run`); a simulator
makes, delays, repeats or loses them as its seed says. The code that decides is the same in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")

Call = Callable[[], Any]
"""A call to the outside that was decided on and is not made yet."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for this long, or until the code that runs the steps is woken."""

    seconds: float


Steps = Generator[Call | Pause, Any, Result]
"""Yields calls and is sent their results; what a call raises is thrown in at the yield."""


def relayed(
    steps: Steps[Result],
    *,
    outgoing: Callable[[Call | Pause], Call | Pause] = lambda step: step,
    after_pause: Callable[[Pause], object] = lambda pause: None,  # noqa: ARG005
) -> Steps[Result]:
    """Run steps within steps, with each step changed by `outgoing` on its way.

    What `outgoing` or `after_pause` raises ends both.
    """
    resume: Callable[[], Call | Pause] = partial(next, steps)
    try:
        while True:
            try:
                step = outgoing(resume())
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            try:
                result = yield step
            except Exception as error:
                resume = partial(steps.throw, error)
            else:
                if isinstance(step, Pause):
                    after_pause(step)
                resume = partial(steps.send, result)
    finally:
        steps.close()


def run(
    steps: Steps[Result],
    *,
    lock: AbstractContextManager[Any] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Result:
    """Run steps in this thread. The lock is held between the calls, and free during each."""
    guard = lock if lock is not None else nullcontext()
    resume: Callable[[], Call | Pause] = partial(next, steps)
    while True:
        try:
            with guard:
                step = resume()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        try:
            if isinstance(step, Pause):
                sleep(step.seconds)
                resume = partial(steps.send, None)
            else:
                resume = partial(steps.send, step())
        except Exception as error:
            resume = partial(steps.throw, error)
