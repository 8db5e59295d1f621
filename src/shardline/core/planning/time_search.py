"""The search by time for the end of one range: which time to read at next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.silence import Silence

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.planning.limits import Bounds
    from shardline.core.planning.queries import Answer, Place, Query

_BEFORE_NOW: Final = timedelta(seconds=1)

_STEP_DOWN: Final = 16
"""By how much the time to search in shrinks while nothing was found in it: what ended long ago may
be short beside the time since."""


@dataclass
class TimeSearch:
    """What the queries of one range have shown so far.

    The first time to read at is the newest one that the range may reach, the second is half way
    to it. If nothing lies there either, the next ones are much earlier, until something is found;
    from there on the last record is found by halving the time in between, or its magnitude.
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
    silence: Silence = field(default_factory=Silence)

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

    def nothing_before(self, answer: Answer) -> datetime | None:
        """Return a time before which nothing unread arrived, as `Silence` has it; None: not known.

        A service that names its tip needs no silence.
        """
        if answer.behind_ms is not None:
            self.silence = Silence()
            return None
        return self.silence.after_page(answer.rows, answer.service_time)

    @property
    def silent_since(self) -> datetime | None:
        """Since when such a service gave nothing but empty pages; None: it gave records."""
        return self.silence.since

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
            step = self._step(self.nothing_from, base.as_of, reached.as_of, smallest_step)
            newest = min(newest, reached.as_of + step)
            if newest >= self.nothing_from:
                return None
        return newest if newest - reached.as_of >= smallest_step else None

    def _step(
        self, nothing_from: datetime, base: datetime, reached: datetime, smallest: timedelta
    ) -> timedelta:
        """Return how far after `reached` to read next, if nothing lies at a time or later."""
        empty = nothing_from - reached
        if not self.found:
            return max(empty / (2 if self.empty_times == 1 else _STEP_DOWN), smallest)
        full, whole = reached - base, nothing_from - base
        if full > smallest and whole > full * 2:
            return full * math.sqrt(whole / full) - full
        return empty / 2
