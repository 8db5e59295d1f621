"""The small port through which everything else sees a stream, whichever service keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from shardline.core.positions import Position
    from shardline.core.shards import Shard


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """What a service says about a stream as a whole."""

    name: str
    arn: str
    created_at: datetime
    """A stream that was deleted and made again under its name differs in this."""
    active: bool
    retention_seconds: int
    service_time: datetime | None = None
    """The service's clock when it answered; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one read gave. An empty page proves nothing about the shard."""

    records: pa.RecordBatch
    """In written order, with the columns of `services.wire.columns`."""
    next_iterator: str | None
    """None at the end of a closed shard."""
    behind_ms: int | None
    """How far the page lies behind the tip; 0 at the tip. None where the service does not say."""
    children: tuple[Shard, ...]
    """Named by Kinesis on the last page of a closed shard."""
    service_time: datetime
    """The service's clock when it answered. Compare times with this, never with our own clock."""


class StreamService(Protocol):
    """One stream of one service.

    Every method retries what is worth retrying (throttling, 5xx, cut connections) with jitter,
    says so on the logger, and raises a `ShardlineError` otherwise: a `ServiceError`, or for what
    was asked wrongly a `ConfigurationError` or an `InvalidPosition`.
    """

    finds_times: bool
    """Whether `open` takes a time. DynamoDB Streams refuses: `ShardCursor` looks for it."""

    @property
    def columns(self) -> pa.Schema:
        """The columns of every page."""

    def describe(self) -> StreamDescription:
        """Describe the stream."""

    def list_shards(self) -> tuple[Shard, ...]:
        """List every shard that the service still lists, all pages or an error."""

    def has_shard(self, shard_id: str) -> bool:
        """Ask for this one shard: missing from a listing is not yet gone."""

    def open(self, shard_id: str, position: Position) -> str:
        """Return an iterator at a position. `ShardEnd` is refused: there is nothing to open.

        `After` with a sub-sequence opens *at* that record, for its other user records.
        """

    def read(self, iterator: str, max_records: int) -> Page:
        """Read one page. Raises `IteratorExpired` and `PositionTrimmed`; `ShardCursor` copes."""

    def close(self) -> None:
        """Let go of connections."""
