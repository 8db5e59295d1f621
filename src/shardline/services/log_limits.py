"""Limits how often a message is logged, so that a long outage does not fill the log."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

_KINDS_BEFORE_CLEANUP: Final = 64


class LogLimit:
    """Passes one message of a kind in each period, and counts those that it held back."""

    def __init__(self, period_seconds: float = 60) -> None:
        self._period_seconds = period_seconds
        self._logged: dict[Hashable, tuple[float, int]] = {}
        self._next_cleanup = _KINDS_BEFORE_CLEANUP

    def admit(self, kind: Hashable, now: float) -> int | None:
        """Return how many messages were held back since the last one, or None to hold this back."""
        logged_at, held_back = self._logged.get(kind, (float("-inf"), 0))
        if now - logged_at < self._period_seconds:
            self._logged[kind] = (logged_at, held_back + 1)
            return None
        if len(self._logged) >= self._next_cleanup:
            self._forget_before(now - 2 * self._period_seconds)
        self._logged[kind] = (now, 0)
        return held_back

    def _forget_before(self, time: float) -> None:
        """Delete the kinds last logged before a time: kinds name shards, which come and go."""
        self._logged = {kind: entry for kind, entry in self._logged.items() if entry[0] >= time}
        self._next_cleanup = max(_KINDS_BEFORE_CLEANUP, 2 * len(self._logged))


def and_before(held_back: int) -> str:
    """Return the end of a message before which others were held back; empty if none were."""
    return f" (and {held_back} times in the minute before)" if held_back else ""
