"""When a shard may be written to next: its quota, seen by one writer.

A shard takes 1,000 records and 1 MiB a second from all writers together. What is used is counted
here as the service counts it, so that it need not refuse. Whether the quota is enforced is learnt:
when it is used up, a few records more are sent. If they are taken, the quota counts as higher (a
local service may have none); the first refusal shows that it holds. Refusals after that show other
writers: the share of this one shrinks as more of a call is refused, and grows again by time.

A shard whose quota is used up refuses the rest of a call. If it takes a later entry that is no
smaller, and refuses no more than it takes, its quota was not the reason. How often that happens is
remembered: a row of refusals that is no longer than chance makes it slows down nobody either.
"""

from __future__ import annotations

import math
from typing import Final

RECORDS_PER_SECOND: Final = 1000.0
BYTES_PER_SECOND: Final = 1024.0 * 1024.0
_TRIAL_RECORDS: Final = 20.0
_TRIAL_BYTES: Final = 20.0 * 1024.0
"""How far above the quota records are sent to learn whether it holds, however large they are."""
_NO_QUOTA: Final = 1024.0
"""A shard that took this many times its quota has none."""
_LEAST_SHARE: Final = 0.25
_SHRINK: Final = 0.5
"""By how much the share shrinks if all of a call is refused."""
_GROWTH_PER_SECOND: Final = 0.1
_SPACING_SECONDS: Final = 0.05
"""Shards that wait become ready at whole multiples of this, so that they share a call."""
SPACING_RECORDS: Final = round(RECORDS_PER_SECOND * _SPACING_SECONDS)
"""What a shard takes in that time."""
_REFUSAL_SECONDS: Final = 0.1
_LONGEST_REFUSAL_SECONDS: Final = 1.0
_CHANCE: Final = 0.001
"""A row of refusals less likely than this, as refusals without a reason go, has a reason."""
_LEAST_CHANCE: Final = 0.25
_CHANCE_RISE: Final = 0.5
_CHANCE_FALL: Final = 0.05
"""What the newest call weighs in the part of entries that are refused without a reason."""


class Tally:
    """What a call's answer says about the entries of one shard, in their order."""

    __slots__ = ("_smallest_refused", "accepted", "has_room", "longest_row", "refused",
                 "refused_bytes", "row")  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0
        self.refused = 0
        self.refused_bytes = 0
        self.row = 0
        """How many were refused after the last that was accepted."""
        self.longest_row = 0
        self.has_room = False
        """True if an entry was accepted after one that is no larger had been refused."""
        self._smallest_refused = math.inf

    def accept(self, size_bytes: int) -> None:
        """Count an accepted entry."""
        self.accepted += 1
        self.row = 0
        self.has_room = self.has_room or size_bytes >= self._smallest_refused

    def refuse(self, size_bytes: int) -> None:
        """Count a refused entry."""
        self.refused += 1
        self.refused_bytes += size_bytes
        self.row += 1
        self.longest_row = max(self.longest_row, self.row)
        self._smallest_refused = min(self._smallest_refused, size_bytes)

    @property
    def refused_part(self) -> float:
        """The part that was refused, from 0 to 1."""
        return self.refused / (self.refused + self.accepted)


class ShardQuota:
    """The quota of one shard as this process has used it. `now` is seconds on any steady clock.

    Not for use by several threads at once.
    """

    __slots__ = ("_at", "_bytes", "_chance", "_not_before", "_records", "_refusals", "_row",
                 "_shrunk_at", "holds", "share")  # fmt: skip

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
        self._chance = _LEAST_CHANCE
        """The part of entries that were refused lately though the quota was not used up."""
        self._row = 0
        """How many entries in a row were refused."""

    def opens_at(self) -> float:
        """Return the time from which on `spend` may be tried."""
        return self._not_before

    def spend(self, size_bytes: int, now: float) -> bool:
        """Count a record that is about to be sent; or return false if the quota is used up."""
        if self.share >= _NO_QUOTA:
            return True
        if now != self._at:
            self._refill(now)
        if self.holds:
            fits = self._records >= 1 and self._bytes >= self._needed(size_bytes)
        else:
            fits = self._records > -_TRIAL_RECORDS and self._bytes > -_TRIAL_BYTES
        if fits:
            self._records -= 1
            self._bytes -= size_bytes  # of a large record into debt, as the service does
        return fits

    def close(self, size_bytes: int, now: float, left: int = SPACING_RECORDS) -> None:
        """Close until a record of this size fits, and as many of the `left` as make up a call.

        The last ones, fewer than `SPACING_RECORDS`, wait no longer than they have to.
        """
        missing_bytes = (self._needed(size_bytes) - self._bytes) / (BYTES_PER_SECOND * self.share)
        if left < SPACING_RECORDS:
            missing_records = (left - self._records) / (RECORDS_PER_SECOND * self.share)
            self._not_before = max(self._not_before, now + max(missing_records, missing_bytes))
            return
        missing_records = (1 - self._records) / (RECORDS_PER_SECOND * self.share)
        wait = max(missing_records + _SPACING_SECONDS, missing_bytes, _SPACING_SECONDS)
        self._close_until(now + wait)

    def _needed(self, size_bytes: int) -> float:
        return min(float(size_bytes), BYTES_PER_SECOND * self.share)

    def answered(self, tally: Tally, now: float, spread: float = 0.5) -> None:
        """Record what an answer says about the entries of this shard; `refused` has `spread`."""
        self._row = tally.row if tally.accepted else self._row + tally.row
        has_room = tally.has_room and tally.refused <= tally.accepted
        if has_room or not tally.refused:
            more = tally.refused_part - self._chance
            more *= _CHANCE_RISE if more > 0 else _CHANCE_FALL
            self._chance = max(_LEAST_CHANCE, self._chance + more)
            self._records += tally.refused  # the service did not count them
            self._bytes += tally.refused_bytes
            self.accepted(now)
        elif self._tried or self._chance ** max(self._row, tally.longest_row) < _CHANCE:
            self.refused(now, tally.refused_part, spread)
        else:
            self._enforce(now)

    def accepted(self, now: float) -> None:
        """Record that all that a call had for this shard was taken."""
        self._refusals = 0
        if self._tried and self.share < _NO_QUOTA:
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
            self._enforce(now)
        elif now - self._shrunk_at > _REFUSAL_SECONDS:
            self.share = max(_LEAST_SHARE, self.share * (1 - _SHRINK * refused_part))
            self._shrunk_at = now
        self._records, self._bytes = min(self._records, 0.0), min(self._bytes, 0.0)
        # If some were accepted, the quota is at its edge; if none was, others use all of it.
        self._refusals = self._refusals + 1 if refused_part == 1 else 0
        pause = min(_LONGEST_REFUSAL_SECONDS, _REFUSAL_SECONDS * self._refusals)
        self._close_until(now + max(_SPACING_SECONDS, pause * (0.5 + spread)))

    def _enforce(self, now: float) -> None:
        """Keep to the quota from now on, if that was not done before."""
        if not self.holds:
            if self.share > 1:
                self._records, self._bytes = min(self._records, 0.0), min(self._bytes, 0.0)
            self.holds, self.share = True, 1.0
            self._shrunk_at = now

    @property
    def _tried(self) -> bool:
        """True while more was sent than the quota allows, to learn whether it holds."""
        return not self.holds and (self._records < 0 or self._bytes < 0)

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
