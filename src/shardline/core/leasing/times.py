"""How long the parts of leasing take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long things take, in seconds. Only `lease_seconds` is worth choosing."""

    lease_seconds: float = 10.0
    """A worker whose heartbeat stands still for this long has lost its leases."""
    checkpoint_seconds: float = 12.0
    """At most one checkpoint of a shard in this time, except at its end and at hand-overs."""
    retention_seconds: float = 24 * 3600.0
    """How long a completed row is kept after its shard was last listed."""
    abandon_seconds: float = 60.0
    """Workers end when the launcher of their run has not renewed its row for this long."""
    most_starts: int = 5
    """A shard on which work began this often at one checkpoint without success is halted."""

    @property
    def renew_seconds(self) -> float:
        """How often a heartbeat is renewed."""
        return self.lease_seconds / 3

    @property
    def tick_seconds(self) -> float:
        """How often a worker reads the header row, so that it notices a change within seconds."""
        return min(1.2, self.lease_seconds / 9)

    @property
    def stop_seconds(self) -> float:
        """When a worker that could not renew stops: a fifth early, because clocks drift."""
        return self.lease_seconds * 0.8

    @property
    def avoid_seconds(self) -> float:
        """How long a worker leaves a shard that it gave up to the others."""
        return self.lease_seconds * 3
