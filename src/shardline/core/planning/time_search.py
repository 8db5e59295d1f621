"""The search by time for the end of one range: which time to read at next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.silence import SILENCE

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.planning.limits import Bounds
    from shardline.core.planning.tips import Answer, Place, Query

_BEFORE_NOW: Final = timedelta(seconds=1)

_STEP_DOWN: Final = 16
"""By how much the time to search in shrinks while nothing was found in it: what ended long ago may
be short beside the time since."""


@dataclass
class TimeSearch:
    """What the queries of one range have shown so far.

    The first time to read at is the newest one that the range may reach, the second is half way
    to it. If nothing lies there either, the next ones are much earlier, until something is found;
    from there on the last record is found by halving the time in between.
    """

    nothing_from: datetime | None = None
    """Nothing lies at this time or later, as the service said."""
    empty_times: int = 0
    """How many times had nothing after them before one was found that has."""
    found: bool = False
    """A time was found with records after it."""
    misses: int = 0
    """How many times in a row gave no later end: the stamps go back."""
    again: Query | None = None
    """A query whose last page was empty though records lie after it: ask once more."""
    silent_since: datetime | None = None

    @property
    def is_bounded(self) -> bool:
        """Return true if a time is known with nothing after it."""
        return self.nothing_from is not None

    def after(self, as_of: datetime) -> TimeSearch:
        """Return the search for the end of the next range, which begins at a time."""
        bound = self.nothing_from
        return TimeSearch(bound, found=True) if bound and bound > as_of else TimeSearch()

    def nothing_at(self, time: datetime | None) -> None:
        """Record that nothing lies at a time or later."""
        self.nothing_from = time
        self.empty_times += 1

    def found_one(self) -> None:
        """Record that a later end was found by its time."""
        self.misses, self.found = 0, True

    def silent(self, answer: Answer) -> bool:
        """Return true if a service that never names its tip gave nothing for long enough."""
        if answer.rows or answer.behind_ms is not None:
            self.silent_since = None
            return False
        self.silent_since = self.silent_since or answer.service_time
        return answer.service_time - self.silent_since >= SILENCE

    def next_time(
        self, base: Place, reached: Place, bounds: Bounds, smallest_step: timedelta
    ) -> datetime | None:
        """Return the next time to read at; None if the rest is soon read."""
        newest = bounds.now - _BEFORE_NOW
        if bounds.until is not None:
            newest = min(newest, bounds.until)
        if bounds.window is not None:
            newest = min(newest, base.as_of + bounds.window)
        if self.nothing_from is not None:
            part = 2 if self.found or self.empty_times == 1 else _STEP_DOWN
            step = (self.nothing_from - reached.as_of) / part
            if not self.found:
                step = max(step, smallest_step)
            newest = min(newest, reached.as_of + step)
            if newest >= self.nothing_from:
                return None
        return newest if newest - reached.as_of >= smallest_step else None
