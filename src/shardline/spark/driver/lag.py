"""How far a query lies behind each shard's newest records, reported while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from shardline.core.positions import SHARD_END
from shardline.spark.driver.tokens import offsets_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from shardline.core.gaps import Gap
    from shardline.core.offsets import Offset


@dataclass(frozen=True, slots=True)
class ShardLag:
    """Where one shard stands after a batch."""

    shard_id: str
    delivered: str
    """The position after what was delivered, as text."""
    seconds: float | None
    """Since the time before which nothing unread arrived; None while nothing is known of it."""


@dataclass(frozen=True, slots=True)
class QueryLag:
    """Where a query stands in one stream after a batch."""

    query_id: str
    stream: str
    batch_id: int
    shards: tuple[ShardLag, ...]
    """Those that are not finished."""
    finished: tuple[str, ...]
    """Those that are, and that lineage still needs."""
    gaps: tuple[Gap, ...]


class LagListener(StreamingQueryListener):
    """Reports after every batch how far each shard lags.

    `spark.streams.addListener(LagListener(print))`
    """

    def __init__(self, tell: Callable[[QueryLag], None]) -> None:
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Report each of the query's sources that is ours."""
        progress = event.progress
        for source in progress.sources:
            for stream, offset in offsets_in(source.endOffset):
                now = datetime.now(UTC)
                self._tell(
                    lag_of(offset, str(progress.id), stream, batch_id=progress.batchId, now=now)
                )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing."""


def lag_of(offset: Offset, query_id: str, stream: str, *, batch_id: int, now: datetime) -> QueryLag:
    """Return how a query stands in a stream at an offset."""
    unfinished = {k: item for k, item in sorted(offset.ranges.items()) if item.upto != SHARD_END}
    finished = offset.drained.keys() | (offset.ranges.keys() - unfinished.keys())
    shards = tuple(
        ShardLag(shard_id, str(item.upto), _seconds_since(item.as_of, now))
        for shard_id, item in unfinished.items()
    )
    return QueryLag(query_id, stream, batch_id, shards, tuple(sorted(finished)), offset.gaps)


def _seconds_since(time: datetime | None, now: datetime) -> float | None:
    return None if time is None else max(0.0, (now - time).total_seconds())
