"""How far a shard was read where the service never names its tip: DynamoDB Streams.

An empty page proves nothing there, and neither do many. What is taken for evidence is time: a
record that had arrived would have come within `SILENCE` of nothing but reads. The bound decides
about the age of an idle place, which may be too old by it and never too young, and when a read that
ends (`availableNow`, `spark.read`) stops to wait for an open shard. No place moves for it: what
comes later is read next time. A closed shard ends by the service's word, without a wait.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

SILENCE: Final = timedelta(seconds=30)
BOUND_TEXT: Final = (
    "DynamoDB Streams never says that an open shard was read to its tip: it counts as such after "
    f"{SILENCE.seconds} s of nothing but empty pages"
)
_LONGEST_PAUSE: Final = timedelta(seconds=10)
"""More time between two empty pages, as after a sleep or where somebody looks once an hour, counts
as this much: nobody was reading."""
WHOLE_MINUTE: Final = timedelta(minutes=1)
"""DynamoDB may cut creation times to the whole minute."""


class Silence:
    """Since when one shard has given nothing but empty pages, on the service's clock."""

    def __init__(self) -> None:
        self.since: datetime | None = None
        """When the empty pages began that are not counted yet; None: the last page had records."""
        self._last_at: datetime | None = None
        self._spent = timedelta()
        self._nothing_before: datetime | None = None

    def after_page(self, rows: int, service_time: datetime) -> datetime | None:
        """Return a time before which nothing unread arrived, after a page; None if not known."""
        if rows:
            self.since, self._spent, self._nothing_before = None, timedelta(), None
            return None
        if self.since is None or self._last_at is None:
            self.since = self._last_at = service_time
        self._spent += min(service_time - self._last_at, _LONGEST_PAUSE)
        self._last_at = service_time
        if self._spent >= SILENCE:
            self._nothing_before = self.since - WHOLE_MINUTE
            self.since, self._spent = service_time, timedelta()
        return self._nothing_before
