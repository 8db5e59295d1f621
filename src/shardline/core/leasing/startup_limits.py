"""How much a worker writes at once: little at first, when it cannot know who else is there."""

from __future__ import annotations

from typing import Final

_AT_ONCE: Final = 200
_AT_FIRST: Final = 20


class StartupLimits:
    """Bounds the rows that are created, and the leases that are taken, in one go.

    Workers that start together read each other's heartbeats within one renewal. Until then each
    would take all that the others are about to take, and would have to give it back.
    """

    def __init__(self, renew_seconds: float) -> None:
        self._renew_seconds = renew_seconds
        self._first_renewed_at: float | None = None
        self._created = 0

    def renewed(self, now: float) -> None:
        """Record a heartbeat that was written."""
        if self._first_renewed_at is None:
            self._first_renewed_at = now

    def created(self) -> None:
        """Record a row that was created."""
        self._created += 1

    def most_to_create(self, now: float) -> int:
        """Return how many rows to create at most."""
        return max(0, _AT_FIRST - self._created) if self.is_new(now) else _AT_ONCE

    def most_to_take(self, held: int, leasable: int, workers: int, now: float) -> int:
        """Return how many leases to take at most, on top of those held.

        `workers` is how many the launcher of this run starts: the others come in a moment.
        """
        if not self.is_new(now):
            return _AT_ONCE
        share = -(-leasable // max(1, workers))
        return max(0, min(_AT_FIRST, share) - held)

    def is_new(self, now: float) -> bool:
        """Return true until others had the time to read its first heartbeat."""
        first = self._first_renewed_at
        return first is None or now - first < self._renew_seconds
