"""How far a query lies behind each shard's newest records, told while it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from shardline.core.offsets import KIND, Offset
from shardline.core.shards import SHARD_END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from shardline.core.offsets import Gap


@dataclass(frozen=True, slots=True)
class ShardLag:
    """How one shard stands after a batch."""

    shard_id: str
    delivered: str
    """The position behind what was delivered, as text."""
    seconds: float | None
    """Since the time before which nothing unread arrived; None while nothing is known of it."""
    ended: bool


@dataclass(frozen=True, slots=True)
class QueryLag:
    """How a query stands after a batch."""

    query_id: str
    batch_id: int
    shards: tuple[ShardLag, ...]
    finished: tuple[str, ...]
    """Shards behind us that lineage still needs."""
    gaps: tuple[Gap, ...]


class LagListener(StreamingQueryListener):
    """Tells of every batch how far each shard is behind.

    `spark.streams.addListener(LagListener(print))`
    """

    def __init__(self, tell: Callable[[QueryLag], None]) -> None:
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Tell of each of the query's sources that is ours."""
        progress = event.progress
        for source in progress.sources:
            lag = lag_of(source.endOffset, now=datetime.now(UTC))
            if lag is not None:
                shards, offset = lag
                self._tell(
                    QueryLag(
                        str(progress.id),
                        progress.batchId,
                        shards,
                        tuple(sorted(offset.drained)),
                        offset.gaps,
                    )
                )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing."""


def lag_of(end_offset: Any, *, now: datetime) -> tuple[tuple[ShardLag, ...], Offset] | None:
    """Read the lag out of a progress report's end offset; None if the source is not ours."""
    value = json.loads(end_offset) if isinstance(end_offset, str) else end_offset
    if not isinstance(value, dict) or value.get("shardline") != KIND:
        return None
    offset = Offset.from_json(value)
    return tuple(_shard_lags(offset, now)), offset


def _shard_lags(offset: Offset, now: datetime) -> Iterator[ShardLag]:
    for shard_id, item in sorted(offset.ranges.items()):
        behind = None if item.as_of is None else max(0.0, (now - item.as_of).total_seconds())
        yield ShardLag(shard_id, str(item.upto), behind, item.upto == SHARD_END)
