"""The clock of the embedded service, which tests can advance."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Final

_MAX_MS: Final = int(datetime(2201, 1, 1, tzinfo=UTC).timestamp() * 1000)


class Clock:
    """Real time plus an offset; with a `start`, a time that changes only through `advance`.

    The time never decreases, so that arrival times rise with the sequence numbers.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._lock = threading.Lock()
        self._manual = start is not None
        self._offset_ms = int(start.timestamp() * 1000) if start is not None else 0
        self._latest_ms = 0

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        if self._manual:
            return self._offset_ms
        with self._lock:
            real_ms = time.time_ns() // 1_000_000
            self._latest_ms = max(self._latest_ms, real_ms + self._offset_ms)
            return self._latest_ms

    def now(self) -> datetime:
        """Return the time as an aware datetime."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def advance(self, seconds: float) -> None:
        """Advance the time by a number of seconds, which must not be negative.

        Raises `ValueError` also if the time would be later than the year 2200.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot go back ({seconds} s): pass seconds >= 0")
        latest_ms = self.now_ms()
        # Compared as a float first: an infinite or huge number cannot be rounded.
        if not seconds * 1000 <= _MAX_MS - latest_ms:
            raise ValueError(f"{seconds} s is too far: the clock ends with the year 2200")
        with self._lock:
            self._offset_ms += round(seconds * 1000)
