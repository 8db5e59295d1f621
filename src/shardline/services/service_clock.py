"""The service's own clock, from the Date headers of its answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from shardline.services.clock import boot_seconds

_TOLERANCE_SECONDS: Final = 300.0


class ServiceClock:
    """Reads Date headers: whole seconds, never ahead of the service's time.

    A proxy or one machine of many may send a wrong one. A header that is far from what the headers
    before lead to expect is believed only if the next one agrees with it.
    """

    def __init__(self, clock: Callable[[], float] = boot_seconds) -> None:
        self._clock = clock
        self._offset: float | None = None
        """The service's time less that of our clock."""
        self._doubted_offset: float | None = None

    def ask(self, call: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], datetime]:
        """Make a call and return its answer with its time; a doubtful time is asked for again."""
        response = call()
        time = self.time_of(response)
        if time is None:
            response = call()
            time = self.time_of(response) or self.now()
        return response, time

    def time_of(self, response: dict[str, Any]) -> datetime | None:
        """Return when an answer was given, or None if its header is not to be believed yet."""
        stamp = _stamp_of(response)
        if stamp is None:
            return self.now()
        offset = stamp - self._clock()
        if self._offset is None or _agree(offset, self._offset, self._doubted_offset):
            self._offset, self._doubted_offset = offset, None
            return datetime.fromtimestamp(stamp, UTC)
        self._doubted_offset = offset
        return None

    def now(self) -> datetime:
        """Return the service's time by the headers of its answers, else that of this machine.

        Every HTTP server must send the header; a test server without one shares our clock.
        """
        if self._offset is None:
            return datetime.now(UTC).replace(microsecond=0)
        return datetime.fromtimestamp(int(self._offset + self._clock()), UTC)


def _agree(offset: float, *others: float | None) -> bool:
    return any(other is not None and abs(offset - other) < _TOLERANCE_SECONDS for other in others)


def _stamp_of(response: dict[str, Any]) -> float | None:
    header = response["ResponseMetadata"]["HTTPHeaders"].get("date")
    try:
        return None if header is None else parsedate_to_datetime(header).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
