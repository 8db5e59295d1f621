"""What one worker is to do: streams, app, consumer and settings, as a value that travels.

A keeper reads it before it holds a lease: nothing that is imported here may import Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import LATEST, Latest
from shardline.services.access import Access
from shardline.services.addresses import parse_address

if TYPE_CHECKING:
    from shardline.core.positions import AtTime, TrimHorizon
    from shardline.services.snapshot_stream import SnapshotSettings


@dataclass(frozen=True, slots=True)
class StreamSource:
    """One stream that a consumer reads."""

    address: str
    access: Access = field(default_factory=Access)
    wire: str = "json"
    fan_out: str | None = None
    """The registered consumer under which shards are subscribed to; None to poll them."""
    snapshot: SnapshotSettings | None = None
    """How the table is read before its changes; None for a stream without that."""

    @property
    def name(self) -> str:
        """The name under which its leases are kept."""
        return parse_address(self.address).stream_name


@dataclass(frozen=True, slots=True)
class LeasePlace:
    """Where the leases of an app are kept."""

    address: str
    access: Access = field(default_factory=Access)

    @property
    def name(self) -> str:
        """The address as messages show it: without what may be a secret."""
        scheme, _, rest = self.address.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """How much a pipeline reads ahead and delivers at once."""

    batch_records: int = 10_000
    """The most records in one call of `process`."""
    read_ahead_records: int = 20_000
    read_ahead_bytes: int = 32 * 1024 * 1024
    poll_seconds: float = 0.25
    """How long a reader at the tip waits between two reads."""


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one consumer. It travels to executors, so it never holds a secret."""

    streams: tuple[StreamSource, ...]
    app: str
    leases: LeasePlace
    consumer: bytes
    """The user's consumer, pickled: each lease of a shard gets an object of its own."""
    change_of: bytes | None = None
    """A function from a record to a typed change, pickled: where the consumer has a model."""
    start: TrimHorizon | Latest | AtTime = LATEST
    times: LeaseTimes = field(default_factory=LeaseTimes)
    limits: PipelineLimits = field(default_factory=PipelineLimits)
    memory_bytes: int = 512 * 1024 * 1024
    """The most that all pipelines of one worker read ahead together."""
    stall_seconds: float = 600.0
    """A call of the consumer that takes longer is abandoned, and its shard given up."""
    stop_seconds: float = 30.0
    """How long a worker that stops waits for the running calls."""
    go_on_after_gaps: bool = False
    expect_app: bool = False
    """Refuse to start an app that has no leases in the table yet."""
    run_id: str = "run"
    """The run that a launcher wrote down: a worker that cannot find it takes nothing."""
