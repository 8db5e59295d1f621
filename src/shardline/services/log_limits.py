"""Limits how often a message is logged, so that a long outage does not fill the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class LogLimit:
    """Passes one message of a kind in each period, and counts those that it held back."""

    def __init__(self, period_seconds: float = 60) -> None:
        self._period_seconds = period_seconds
        self._logged: dict[Hashable, tuple[float, int]] = {}

    def admit(self, kind: Hashable, now: float) -> int | None:
        """Return how many messages were held back since the last one, or None to hold this back."""
        logged_at, held_back = self._logged.get(kind, (float("-inf"), 0))
        if now - logged_at < self._period_seconds:
            self._logged[kind] = (logged_at, held_back + 1)
            return None
        self._logged[kind] = (now, 0)
        return held_back
