"""When a shard may be written to next: its quota, seen by one writer.

A shard takes 1,000 records and 1 MiB a second from all writers together. What is used is counted
here as the service counts it, so that it need not refuse. Whether the quota is enforced is learnt:
when it is used up, a few records more are sent. If they are taken, the quota counts as higher (a
local service may have none); the first refusal shows that it holds. Refusals after that show other
writers: the share of this one shrinks as more of a call is refused, and grows again by time.
"""

from __future__ import annotations

import math
from typing import Final

RECORDS_PER_SECOND: Final = 1000.0
BYTES_PER_SECOND: Final = 1024.0 * 1024.0
_TRIAL_RECORDS: Final = 20.0
_TRIAL_BYTES: Final = 20.0 * 1024.0
"""How much is sent above the quota to learn whether it holds."""
_NO_QUOTA: Final = 1024.0
"""A shard that took this many times its quota has none."""
_LEAST_SHARE: Final = 0.25
_SHRINK: Final = 0.5
"""By how much the share shrinks if all of a call is refused."""
_GROWTH_PER_SECOND: Final = 0.1
_SPACING_SECONDS: Final = 0.05
"""Shards that wait become ready at whole multiples of this, so that they share a call."""
_REFUSAL_SECONDS: Final = 0.1
_LONGEST_REFUSAL_SECONDS: Final = 1.0


class ShardQuota:
    """The quota of one shard as this process has used it. `now` is seconds on any steady clock.

    Not for use by several threads at once.
    """

    __slots__ = ("_at", "_bytes", "_not_before", "_records", "_refusals", "_shrunk_at", "holds",
                 "share")  # fmt: skip

    def __init__(self) -> None:
        self.share = 1.0
        """Multiplies the quota: above 1 while it was never enforced, below 1 beside others."""
        self.holds = False
        """True once the shard has refused a record."""
        self._records = RECORDS_PER_SECOND
        self._bytes = BYTES_PER_SECOND
        self._at: float | None = None
        self._not_before = -math.inf
        self._refusals = 0
        self._shrunk_at = -math.inf

    def opens_at(self) -> float:
        """Return the time from which on `spend` may be tried."""
        return self._not_before

    def spend(self, size_bytes: int, now: float) -> bool:
        """Count a record that is about to be sent; or return false, and wait until `opens_at`."""
        if self.share >= _NO_QUOTA:
            return True
        self._refill(now)
        capacity_bytes = BYTES_PER_SECOND * self.share
        needed_bytes = min(float(size_bytes), capacity_bytes)
        above_records, above_bytes = (0.0, 0.0) if self.holds else (_TRIAL_RECORDS, _TRIAL_BYTES)
        if self._records + above_records >= 1 and self._bytes + above_bytes >= needed_bytes:
            self._records -= 1
            self._bytes -= size_bytes  # of a large record into debt, as the service does
            return True
        missing_records = 1 - self._records + RECORDS_PER_SECOND * self.share * _SPACING_SECONDS
        wait = max(
            missing_records / (RECORDS_PER_SECOND * self.share),
            (needed_bytes - self._bytes) / capacity_bytes,
            _SPACING_SECONDS,
        )
        self._close_until(now + wait)
        return False

    def accepted(self, now: float) -> None:
        """Record that all that a call had for this shard was taken."""
        self._refusals = 0
        if not self.holds and self.share < _NO_QUOTA and (self._records < 0 or self._bytes < 0):
            self.share *= 2
            self._records = RECORDS_PER_SECOND * self.share
            self._bytes = BYTES_PER_SECOND * self.share
            self._at = now
            self._not_before = -math.inf

    def refused(self, now: float, refused_part: float = 1.0, spread: float = 0.5) -> None:
        """Record which part, above 0 and up to 1, of what a call had for this shard was refused.

        `spread`, from 0 to 1, keeps writers apart.
        """
        self._refill(now)
        if not self.holds:
            self.holds, self.share = True, 1.0
            self._shrunk_at = now
        elif now - self._shrunk_at > _REFUSAL_SECONDS:
            self.share = max(_LEAST_SHARE, self.share * (1 - _SHRINK * refused_part))
            self._shrunk_at = now
        self._records, self._bytes = min(self._records, 0.0), min(self._bytes, 0.0)
        # If some were accepted, the quota is at its edge; if none was, others use all of it.
        self._refusals = self._refusals + 1 if refused_part == 1 else 0
        pause = min(_LONGEST_REFUSAL_SECONDS, _REFUSAL_SECONDS * self._refusals)
        self._close_until(now + max(_SPACING_SECONDS, pause * (0.5 + spread)))

    def _close_until(self, at: float) -> None:
        rounded = math.ceil(at / _SPACING_SECONDS) * _SPACING_SECONDS
        self._not_before = max(self._not_before, rounded)

    def _refill(self, now: float) -> None:
        passed = max(0.0, now - self._at) if self._at is not None else 0.0
        self._at = now
        if self.holds and self.share < 1:
            self.share = min(1.0, self.share + passed * _GROWTH_PER_SECOND)
        rate_records, rate_bytes = RECORDS_PER_SECOND * self.share, BYTES_PER_SECOND * self.share
        self._records = min(rate_records, self._records + passed * rate_records)
        self._bytes = min(rate_bytes, self._bytes + passed * rate_bytes)
