"""`spark.read`: a bounded range of a stream, parents before children."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader

from shardline.core.gaps import Evidence
from shardline.core.lineage import trace
from shardline.core.offsets import Offset, Range
from shardline.core.planning.events import Refused
from shardline.core.planning.limits import Bounds
from shardline.core.planning.queries import Answer, Kind
from shardline.core.planning.schedule import POLL_SECONDS, SILENT_POLL_SECONDS
from shardline.core.planning.service_clock import ServiceClock
from shardline.core.planning.state import state_after
from shardline.core.planning.stream_view import StreamView
from shardline.core.planning.tips import Tip
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime
from shardline.core.silence import BOUND_TEXT
from shardline.errors import ConfigurationError, GapError, ServiceError, ShardNotFound
from shardline.services.clock import boot_seconds
from shardline.services.steps import Pause
from shardline.spark.driver.orders import Orders, read_time, whole_ms
from shardline.spark.driver.pushed_filters import EVERYTHING, Wanted, wanted_by
from shardline.spark.driver.task_plan import with_hash_ranges
from shardline.spark.executor.range_reader import ShardRange
from shardline.spark.executor.rows import TaskRanges, rows_of
from shardline.spark.step_pool import RunAll, run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from shardline.services.port import StreamService
    from shardline.services.steps import Steps
    from shardline.spark.options import Options

logger = logging.getLogger(__name__)

_SHARDS_PER_TASK: Final = 1
_LISTING_SECONDS: Final = 60.0
"""How long a listing may be stale."""


class ShardedReader(DataSourceReader):
    """Reads what lies between two positions once.

    Rows come in the order of the partitions: every parent's partition lies before its children's.
    """

    def __init__(self, options: Options, item: StructType | None = None) -> None:
        if options.end == TRIM_HORIZON:
            raise ConfigurationError("option endingPosition: write latest, or a time")
        self._options = options
        self._item = item
        self._wanted = Wanted(shards=options.shards)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan where each shard's range ends, and return the ranges parents first."""
        options = self._options
        partitions = []
        for connection in options.connections:
            if not self._wanted.has_stream(connection.name):
                continue
            service = connection.connect()
            try:
                ranges = plan_once(service, options, self._wanted)
            finally:
                service.close()
            size = options.shards_per_task or _SHARDS_PER_TASK
            if options.total_order:
                size = max(1, len(ranges))
            partitions += [
                TaskRanges(connection, tuple(ranges[at : at + size]))
                for at in range(0, len(ranges), size)
            ]
        # Without any, Spark would make up one that is not ours.
        return partitions or [TaskRanges(options.connections[0])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's ranges."""
        return rows_of(self._options, partition, self._item)


class FilteredReader(ShardedReader):
    """The same for a query whose filters Spark pushes: what they leave out is not read."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take note of the filters, and return all of them: Spark evaluates them again."""
        self._wanted = wanted_by(filters).within(self._options.shards)
        return filters


def plan_once(
    service: StreamService,
    options: Options,
    wanted: Wanted = EVERYTHING,
    *,
    clock: Callable[[], float] = boot_seconds,
    run_all: RunAll = run_together,
) -> list[ShardRange]:
    """Return the range of every shard between the two positions, parents first.

    A listing that shows a shard open which has ended is stale, and lacks its children: the plan is
    made anew from another one.
    """
    give_up_at = clock() + _LISTING_SECONDS
    while True:
        ranges = _plan_from_listing(service, options, wanted, clock=clock, run_all=run_all)
        if ranges is not None:
            return ranges
        if clock() > give_up_at:
            raise ServiceError(
                f"the listing of {service.describe().name} lags behind its shards for "
                f"{_LISTING_SECONDS:.0f} s: read again in a moment"
            )
        run_all([_pause()])


def _pause() -> Steps[None]:
    yield Pause(POLL_SECONDS)


def _plan_from_listing(
    service: StreamService,
    options: Options,
    wanted: Wanted,
    *,
    clock: Callable[[], float],
    run_all: RunAll,
) -> list[ShardRange] | None:
    """Return the range of every shard of one listing; None if that was stale."""
    listed = service.list_shards()
    if not listed:
        return []
    described = service.describe()
    now = described.service_time or read_time(service)
    service_clock = ServiceClock()
    service_clock.told(now, clock())
    start = _start(options, wanted, now)
    created_at = whole_ms(described.created_at)
    view = StreamView(name=described.name, arn=described.arn, created_at=created_at)
    error = view.mismatch(start)
    if error is not None:
        raise error
    state = state_after(
        start,
        listed,
        stream=described.arn,
        created_at=created_at,
        now=now,
        retention=timedelta(seconds=described.retention_seconds),
    )
    closed = {shard.id for shard in listed if shard.closed}
    search = _Search(service, Orders(service, clock), service_clock, clock)
    # The service tells whole seconds, rounded down.
    ends = [options.end.time if isinstance(options.end, AtTime) else None, wanted.until]
    ends_at = min((end for end in ends if end is not None), default=None)
    planned, some_open = [], False
    for shard_id in trace(listed).standings:
        place = state.places.get(shard_id)
        if place is None or place.position == LATEST or not wanted.has_shard(shard_id):
            continue
        is_closed = shard_id in closed
        some_open |= not is_closed
        until = ends_at if is_closed else ends_at or now + timedelta(seconds=1)
        planned.append(search.range_steps(Tip(shard_id, place), is_closed, until))
    if some_open and not service.finds_times:
        logger.warning("%s. What comes later is not in the result", BOUND_TEXT)
    found = [item for item in run_all(planned) if item is not None]
    if search.ended_open:
        return None
    parents = {shard.id: shard.parents for shard in listed}
    return [
        replace(item, parents=parents[item.shard_id]) for item in with_hash_ranges(found, listed)
    ]


def _start(options: Options, wanted: Wanted, now: datetime) -> Offset:
    """Return where to start: as asked for, or at the first time that is wanted, if that is later.

    The service refuses times that lie in its future.
    """
    start, since = options.first_offset, wanted.since
    if since is None or start.created_at is not None or start.start == LATEST:
        return start
    if isinstance(start.start, AtTime) and start.start.time >= since:
        return start
    return Offset(AtTime(min(since, now)))


class _Search:
    """Searches the ends of a bounded read, shard by shard."""

    def __init__(
        self,
        service: StreamService,
        orders: Orders,
        service_clock: ServiceClock,
        clock: Callable[[], float],
    ) -> None:
        self.ended_open = False
        """Whether a shard that was listed as open has ended."""
        self._finds_times = service.finds_times
        self._orders = orders
        self._service_clock = service_clock
        self._clock = clock

    def range_steps(
        self, tip: Tip, closed: bool, until: datetime | None
    ) -> Steps[ShardRange | None]:
        """Search the end of one shard's range; return None if nothing is in it."""
        while True:
            bounds = Bounds(
                now=self._service_clock.time(self._clock()),
                finds_times=self._finds_times,
                closed=closed,
                until=until,
            )
            tip.settle(bounds)
            query = tip.next_query(bounds, bookmark=False)
            if query is None:
                break
            event = yield from self._orders.carry_out(query)
            if isinstance(event, Answer):
                self._service_clock.told(event.service_time, self._clock())
                if event.ended and not event.beyond and not closed:
                    self.ended_open = True
                    return None
                tip.answered(event, bounds)
                if not event.rows and query.kind is Kind.FORWARD and event.behind_ms is None:
                    yield Pause(SILENT_POLL_SECONDS)
            elif isinstance(event, Refused):
                self._refuse(event, tip)
                yield Pause(POLL_SECONDS)
        if not tip.found:
            return None
        taken = tip.take()
        planned = Range(taken.start, taken.end.position, taken.end.as_of)
        return ShardRange(tip.shard_id, planned, is_last=taken.is_last)

    def _refuse(self, event: Refused, tip: Tip) -> None:
        """Raise, unless the horizon moved while it was read."""
        if event.evidence is Evidence.GONE:
            raise ShardNotFound(f"{tip.shard_id} was listed and is not found: read again")
        if tip.begins is not None:
            raise GapError(
                f"gap in {tip.shard_id}: its records expire while they are planned to be read. "
                "Start later than trim_horizon"
            )
