"""The stream as it was last described: its clock, and how long it keeps records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from shardline.core.gaps import inherited, later_as_of, may_have_expired

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shardline.core.leasing.events import StreamDescribed
    from shardline.core.leasing.listed_shards import ListedShards
    from shardline.core.leasing.rows import LeaseRow


@dataclass(frozen=True, slots=True)
class LatestStart:
    """What "latest" means at a moment: a time, and the shards that were closed before it.

    The listing was answered before the stream was asked for the time. So a shard that is open at
    that time or later is not among the closed ones, however long the calls take.
    """

    time: datetime
    closed: frozenset[str]


class DescribedStream:
    """A description, and when it was received on this worker's clock."""

    def __init__(self) -> None:
        self.description: StreamDescribed | None = None
        self.latest: LatestStart | None = None
        """Where a start at "latest" begins; None until a description came after a listing."""
        self._received_at = 0.0

    def describe(self, description: StreamDescribed, now: float, listing: ListedShards) -> None:
        """Record a description, which comes after a listing of the same stream or not."""
        known = self.description
        same = known is not None and known.created_at == description.created_at
        if same and listing.asked_at >= self._received_at:
            closed = frozenset(i for i, shard in listing.shards.items() if shard.closed)
            self.latest = LatestStart(description.service_time, closed)
        elif not same:
            self.latest = None
        self.description, self._received_at = description, now

    def time(self, now: float) -> datetime:
        """Return the service's time. It counts on from the last description."""
        passed = timedelta(seconds=max(0.0, now - self._received_at))
        return self._known().service_time + passed

    def retention(self) -> timedelta:
        """Return how long records are kept."""
        return timedelta(seconds=self._known().retention_seconds)

    def as_of(
        self, row: LeaseRow, parents: Iterable[datetime | None], now: float
    ) -> datetime | None:
        """Return the `as_of` of a row that is taken: it has moved with its parents."""
        if self.description is None:
            return row.as_of
        oldest = later_as_of(known_at=self.time(now), retention=self.retention())
        oldest = max(oldest, row.stream_created_at)
        return inherited(row.as_of or oldest, parents)

    def may_be_gone(self, row: LeaseRow | None, now: float) -> bool:
        """Return true if the service's "not found" can be true: nothing young expires."""
        if row is None or row.as_of is None or self.description is None:
            return True
        return may_have_expired(row.as_of, now=self.time(now), retention=self.retention())

    def _known(self) -> StreamDescribed:
        if self.description is None:
            raise AssertionError("the stream was not described yet")
        return self.description
