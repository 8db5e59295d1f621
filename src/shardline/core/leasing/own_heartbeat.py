"""A worker's own heartbeat: when it is written, what it says, how long leases are valid by it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardline.core.leasing.instructions import Forget, Renew

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.leasing.rows import Heartbeat
    from shardline.core.leasing.times import LeaseTimes


@dataclass(frozen=True, slots=True)
class Summary:
    """What a heartbeat reports of its worker; of a fixed size."""

    lag_ms: int | None = None
    """The longest lag of its shards."""
    records_per_second: int = 0
    bytes_per_second: int = 0
    retries: int = 0
    """Deliveries that were tried again since the worker started."""
    dead_letters: int = 0
    """Records that it wrote to the dead letters since it started."""


class OwnHeartbeat:
    """Counts renewals, and how long leases may be worked under since the last one."""

    def __init__(self, beat: Heartbeat, times: LeaseTimes) -> None:
        self._beat = beat
        self._stored: Heartbeat | None = None
        self._times = times
        self._stop_seconds = times.stop_seconds
        self.renewed_at = float("-inf")
        """When the last renewal that succeeded was sent."""
        self.summary = Summary()

    @property
    def valid_until(self) -> float:
        """Until when leases may be worked under, on this worker's clock."""
        return self.renewed_at + self._stop_seconds

    def renewal(self, now: float, held: int, asks: Iterable[str], leaving: bool) -> Renew | None:
        """Return the heartbeat to write, if it is due, or if its content has changed."""
        asked = tuple(sorted(asks))
        new_asks = asked and self._stored is not None and not set(asked) <= set(self._beat.asks)
        due = now - self.renewed_at >= self._times.renew_seconds
        if not (due or new_asks or (leaving and not self._beat.leaving)):
            return None
        summary = self.summary
        new = replace(
            self._beat,
            count=self._beat.count + 1,
            held=held,
            leaving=leaving,
            asks=asked,
            lag_ms=summary.lag_ms,
            records_per_second=summary.records_per_second,
            bytes_per_second=summary.bytes_per_second,
            retries=summary.retries,
            dead_letters=summary.dead_letters,
        )
        return Renew(new, self._stored)

    def written(self, new: Heartbeat, sent_at: float) -> None:
        """Record a renewal that succeeded, sent at `sent_at`."""
        self._beat = self._stored = new
        self.renewed_at = max(self.renewed_at, sent_at)

    def refused(self, current: Heartbeat | None) -> None:
        """Record what is stored instead: a renewal whose answer was lost, or nothing."""
        self._stored = current
        if current is not None:
            self._beat = replace(self._beat, count=max(current.count, self._beat.count))

    def farewell(self) -> Forget | None:
        """Return the last write of a worker that has left."""
        return Forget(self._stored) if self._stored is not None else None
