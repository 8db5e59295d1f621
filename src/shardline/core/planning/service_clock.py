"""The service's clock, from the times that its answers carry."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

_ANSWERS: Final = 5


@dataclass
class ServiceClock:
    """Estimates the service's time; one wrong answer among several does not move it.

    Answers carry whole seconds, rounded down, so that the estimate is a little early and never
    lies in the service's future.
    """

    _answers: deque[tuple[datetime, float]] = field(default_factory=lambda: deque(maxlen=_ANSWERS))
    _middle: tuple[datetime, float] | None = None
    """The answer that the estimate rests on."""

    def told(self, service_time: datetime, now: float) -> None:
        """Record the time in an answer that came at `now`, in seconds on a steady clock."""
        self._answers.append((service_time, now))
        by_clock = sorted(self._answers, key=_set_to)
        self._middle = by_clock[(len(by_clock) - 1) // 2]

    @property
    def known(self) -> bool:
        """Return true if any answer came yet."""
        return self._middle is not None

    def time(self, now: float) -> datetime:
        """Return the service's time: the middle one of what the last answers say."""
        if self._middle is None:
            raise AssertionError("no answer told the service's time yet")
        told, told_at = self._middle
        return told + timedelta(seconds=max(0.0, now - told_at))


def _set_to(answer: tuple[datetime, float]) -> datetime:
    """Return the service's time at the zero of the steady clock, as an answer has it."""
    told, told_at = answer
    return told - timedelta(seconds=told_at)
