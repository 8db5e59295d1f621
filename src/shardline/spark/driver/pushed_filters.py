"""What the filters of a bounded read leave to be read: shards, streams, and a span of time.

Spark evaluates every filter again on the rows, so that this only spares reading. A time is widened
by a margin, because the stamps of a shard do not always rise.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql.datasource import Filter

TIME_COLUMNS: Final = ("approximateArrivalTimestamp", "approximateCreationDateTime")
_MARGIN: Final = timedelta(minutes=2)
"""DynamoDB may cut creation times to the minute; clocks of one service differ by seconds."""

_PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read; None: everything."""

    streams: frozenset[str] | None = None
    shards: frozenset[str] | None = None
    since: datetime | None = None
    """Nothing that arrived before this is wanted."""
    until: datetime | None = None
    """Nothing that arrived after this is wanted."""

    def within(self, shards: frozenset[str] | None) -> Wanted:
        """Return what is wanted of these shards."""
        return replace(self, shards=_both(self.shards, shards))

    def has_stream(self, name: str) -> bool:
        """Return true if records of a stream may be wanted."""
        return self.streams is None or name in self.streams

    def has_shard(self, shard_id: str) -> bool:
        """Return true if records of a shard may be wanted."""
        return self.shards is None or shard_id in self.shards


EVERYTHING: Final = Wanted()


def wanted_by(filters: Iterable[Filter]) -> Wanted:
    """Return what all filters together leave; those that say nothing of it are left out."""
    streams: frozenset[str] | None = None
    shards: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    for each in filters:
        column = getattr(each, "attribute", None)
        if column == ("stream",):
            streams = _both(streams, _values(each))
        elif column == ("shardId",):
            shards = _both(shards, _values(each))
        elif column is not None and len(column) == 1 and column[0] in TIME_COLUMNS:
            time = getattr(each, "value", None)
            if not isinstance(time, datetime) or time.tzinfo is None:
                continue
            if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
                since = max(since or time, time)
            if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
                until = min(until or time, time)
    return Wanted(
        streams,
        shards,
        None if since is None else since - _MARGIN,
        None if until is None else until + _MARGIN,
    )


def filters_are_pushed() -> bool:
    """Return true in the process in which Spark pushes filters.

    Elsewhere a reader that takes filters would be refused, unless the session has
    `spark.sql.python.filterPushdown.enabled`: Spark does not tell a source whether it has.
    """
    main: Any = sys.modules["__main__"]
    return _PUSHING_WORKER in sys.modules or (
        getattr(main.__spec__, "name", None) == _PUSHING_WORKER
    )


def _values(each: Filter) -> frozenset[str] | None:
    if isinstance(each, EqualTo):
        return frozenset([str(each.value)])
    return frozenset(map(str, each.value)) if isinstance(each, In) else None


def _both(one: frozenset[str] | None, other: Collection[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return one if other is None else frozenset(other)
    return one & frozenset(other)
