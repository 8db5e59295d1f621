"""When a shard may be read next, and how much to ask for: its quota, seen by one reader.

Kinesis gives all polling readers of a shard together five calls and 2 MiB a second. A page may
exceed that: it leaves the shard in debt, and every read is refused until the debt is paid. So a
reader that is far behind and alone asks for whole pages and waits for exactly the debt; one near
the tip, or beside others, asks for about 1 MiB, so that nobody is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024
FULL_PAGE_RECORDS: Final = 10_000
_SHARED_PAGE_BYTES: Final = 1 * MIB
_FAR_BEHIND_MS: Final = 10_000
_SHARED_SECONDS: Final = 60.0
"""For how long refusals are counted, and a shard that refused twice counts as read by others."""
_FIRST_RECORD_BYTES: Final = 1024
"""What a record is taken to weigh before one was seen."""
_LONGEST_REFUSAL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Quota:
    """What a service gives all polling readers of one shard together."""

    calls_per_second: float = 5.0
    bytes_per_second: float = 2.0 * MIB
    page_records: int = FULL_PAGE_RECORDS
    burst_calls: int = 1
    """How many calls may follow each other at once after a pause."""


KINESIS_QUOTA: Final = Quota()
DYNAMODB_QUOTA: Final = Quota(page_records=1_000)
UNPACED: Final = Quota(calls_per_second=float("inf"), bytes_per_second=float("inf"))
"""For a reader of few pages: it waits only after a refusal."""
_REFUSAL_SECONDS: Final = 0.25
_REFUSALS_OF_A_PAGE: Final = 20
"""How often a shard may refuse for the debt of one page, which is paid in five seconds."""


class ShardPace:
    """The quota of one shard as this process has used it. `now` is seconds on any steady clock.

    Not for use by several threads at once.
    """

    def __init__(self, quota: Quota = KINESIS_QUOTA) -> None:
        self._quota = quota
        self._spacing_seconds = 1.05 / quota.calls_per_second
        self._next_call_at = float("-inf")
        self._calls_paid_until = float("-inf")
        self._bytes_level = quota.bytes_per_second
        self._level_at: float | None = None
        self._untold_bytes = 0
        self._record_bytes = float(_FIRST_RECORD_BYTES)
        self._behind_ms: int | None = None
        self._started = False
        self._refusals = 0
        self._refused_at = float("-inf")
        self._shared_until = float("-inf")
        self._asked_records = quota.page_records
        self._page_was_full = False

    def wait_seconds(self, now: float) -> float:
        """Return how long to wait before the next read; 0 if it may be sent now."""
        self._refill(now)
        debt_seconds = max(0.0, -self._bytes_level) / self._quota.bytes_per_second
        return max(0.0, self._next_call_at - now, debt_seconds)

    def page_records(self, now: float) -> int:
        """Return how many records to ask for in the next read.

        A page that was as full as it could be says that there is more, whatever its times say.
        """
        far_behind = self._behind_ms is None or self._behind_ms > _FAR_BEHIND_MS
        if (far_behind or self._page_was_full) and now >= self._shared_until:
            return self._quota.page_records
        wanted = int(_SHARED_PAGE_BYTES / self._record_bytes)
        return max(1, min(self._quota.page_records, wanted))

    def sent(self, now: float, asked_records: int | None = None) -> None:
        """Record that a read was sent, and how many records it asked for."""
        self._asked_records = asked_records or self._quota.page_records
        self._calls_paid_until = max(now, self._calls_paid_until) + self._spacing_seconds
        ahead_seconds = (self._quota.burst_calls - 1) * self._spacing_seconds
        self._next_call_at = self._calls_paid_until - ahead_seconds

    def received(self, now: float, records: int, size_bytes: int, behind_ms: int | None) -> None:
        """Record what a read gave; `behind_ms` is None where the service does not say."""
        self._refill(now)
        if self._refusals:  # the debt was paid this moment: nothing is left for this page
            self._bytes_level = min(self._bytes_level, 0.0)
        self._bytes_level -= size_bytes
        self._untold_bytes += size_bytes
        self._refusals = 0
        self._started = True
        self._behind_ms = behind_ms
        self._page_was_full = records > 0 and records >= self._asked_records
        if records:
            self._record_bytes += (size_bytes / records - self._record_bytes) * 0.5

    def moved(self) -> None:
        """Record that the next read is at another place: its lag is not known."""
        self._behind_ms = None

    def take_spent(self, now: float) -> int:
        """Return what was read since the last call and is not given anew by the shard yet."""
        self._refill(now)
        spent = min(float(self._untold_bytes), self._quota.bytes_per_second - self._bytes_level)
        self._untold_bytes = 0
        return max(0, int(spent))

    def deduct(self, now: float, size_bytes: int) -> None:
        """Count bytes that another reader has just read, and reported here."""
        self._refill(now)
        self._bytes_level -= size_bytes

    def refused(self, now: float) -> None:
        """Record that a read was refused: another reader uses the shard, or did so just now.

        If one page is refused, however often, an earlier reader has left a debt: the previous owner
        of the shard, or the planner of a query. A reader that goes on has another page refused.
        """
        self._refusals += 1
        if self._refusals == 1 and self._started:
            if now < self._refused_at + _SHARED_SECONDS:
                self._shared_until = now + _SHARED_SECONDS
            self._refused_at = now
        counted = self._refusals if self._started else self._refusals - _REFUSALS_OF_A_PAGE
        pause = min(_LONGEST_REFUSAL_SECONDS, _REFUSAL_SECONDS * max(1, counted))
        self._next_call_at = now + pause

    def _refill(self, now: float) -> None:
        rate = self._quota.bytes_per_second
        if rate == float("inf"):
            return
        passed = now - self._level_at if self._level_at is not None else 0.0
        self._level_at = now
        self._bytes_level = min(rate, self._bytes_level + passed * rate)
