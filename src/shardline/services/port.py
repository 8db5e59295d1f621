"""The port through which everything else sees a stream, whichever service keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from shardline.core.positions import Position
    from shardline.core.shards import Shard
    from shardline.services.steps import Steps


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
    hash_key: str | None = None
    """The name of the table's hash key; None for Kinesis."""
    newer_arn: str | None = None
    """The stream of the same table that replaced this one, if DynamoDB's streaming was switched off
    and on again: drain this one, then read that one from its beginning."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one read gave. An empty page proves nothing about the shard."""

    records: pa.RecordBatch
    """In written order, with the columns of `services.wire.columns`."""
    next_iterator: str | None
    """None at the end of a closed shard."""
    behind_ms: int | None
    """The lag of the page; 0 at the tip. None where the service does not say."""
    children: tuple[Shard, ...]
    """Named by Kinesis on the last page of a closed shard."""
    service_time: datetime
    """The service's clock when it answered. Compare times with this, never with our own clock."""


class StreamService(Protocol):
    """One stream of one service.

    Every method retries what a retry may help (throttling, 5xx, cut answers) with jitter, logs it
    at most once a minute, and otherwise raises a `ShardlineError`: a `ServiceError`, or for a wrong
    request a `ConfigurationError` or an `InvalidPosition`.
    """

    finds_times: bool
    """True if `open` takes a time. DynamoDB Streams does not: `ShardCursor` searches for it."""

    def describe(self) -> StreamDescription:
        """Describe the stream."""

    def list_shards(self) -> tuple[Shard, ...]:
        """List every shard that the service still lists, all pages or an error."""

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        """List the children of a shard, at less cost than a whole listing.

        Empty while they are not listed yet: keep asking.
        """

    def has_shard(self, shard_id: str) -> bool:
        """Ask for this one shard, since missing from a listing is not gone.

        A "no" may be stale: of a shard younger than the retention, do not believe it. For many
        shards see `services.listing.gone_shards`.
        """

    def open(self, shard_id: str, position: Position) -> str:
        """Return an iterator at a position. `ShardEnd` is refused: there is nothing to open.

        `After` with a sub-sequence opens *at* that record, for its other user records.
        """

    def read(self, iterator: str, max_records: int) -> Page:
        """Read one page.

        Raises `Throttled` at once: the caller's pace decides when to ask again. Also raises
        `IteratorExpired` and `PositionTrimmed`. `ShardCursor` handles the first two.
        """

    def close(self) -> None:
        """Close the connections."""


class ShardReader(Protocol):
    """Reads one shard from a position on, by polling it or by a subscription."""

    @property
    def position(self) -> Position:
        """Where the next read starts: another reader made there continues without loss."""

    @property
    def ended(self) -> bool:
        """True once everything in a closed shard has been read; it stays true."""

    def read_steps(self, max_records: int) -> Steps[Page]:
        """Read the next page, which may be empty."""

    def close(self) -> None:
        """End the subscription of this reader, if it has one. The connections stay open."""
