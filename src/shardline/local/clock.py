"""The service's own clock, which tests move."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime


class Clock:
    """Real time plus whatever was added; or, made with a start, a time that moves only when told.

    A clock never goes back, so that arrival times rise as sequence numbers do.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._lock = threading.Lock()
        self._manual = start is not None
        self._offset_ms = int(start.timestamp() * 1000) if start is not None else 0
        self._latest_ms = 0

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        with self._lock:
            real_ms = 0 if self._manual else time.time_ns() // 1_000_000
            self._latest_ms = max(self._latest_ms, real_ms + self._offset_ms)
            return self._latest_ms

    def now(self) -> datetime:
        """Return the time as an aware datetime."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back ({seconds} s): pass seconds >= 0")
        with self._lock:
            self._offset_ms += round(seconds * 1000)
