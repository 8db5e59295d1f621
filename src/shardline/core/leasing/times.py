"""How long the parts of leasing take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long things take, in seconds. Only `lease_seconds` is worth choosing."""

    lease_seconds: float = 10.0
    """A worker that shows no sign of life for this long has lost its leases."""
    checkpoint_seconds: float = 12.0
    """At most one checkpoint of a shard in this time, except at its end and at hand-overs."""
    retention_seconds: float = 24 * 3600.0
    """How long a finished row is kept after its shard was last listed."""
    stall_seconds: float | None = None
    """A worker whose consumer gave no sign for this long leaves; None: it never does."""

    @property
    def renew_seconds(self) -> float:
        """How often a heartbeat is renewed."""
        return self.lease_seconds / 3

    @property
    def tick_seconds(self) -> float:
        """How often a worker looks at the header row: within two seconds it sees what moved."""
        return min(1.2, self.lease_seconds / 9)

    @property
    def stop_seconds(self) -> float:
        """When a worker that could not renew stops: a fifth early, for clocks that drift."""
        return self.lease_seconds * 0.8
