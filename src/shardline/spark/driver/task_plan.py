"""From a planned batch to tasks: what is still there of each range, and who reads it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from shardline.core.gaps import MARGIN, Evidence, Gap, Verdict, gap_at, judge, may_have_expired
from shardline.core.planning.events import Check, Checked
from shardline.core.planning.limits import INLINE_BYTES
from shardline.core.planning.loss import AGED, gap_error
from shardline.core.positions import After
from shardline.spark.driver.inline_records import pack
from shardline.spark.driver.orders import read_time
from shardline.spark.executor.range_reader import ShardRange
from shardline.spark.step_pool import RunAll, run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from shardline.core.offsets import Offset, Range
    from shardline.core.planning.tips import Taken
    from shardline.core.shards import Shard
    from shardline.services.port import StreamService
    from shardline.services.steps import Steps
    from shardline.spark.driver.orders import Orders

_SHARDS_PER_TASK: Final = 16
"""What one task follows with ease, so that more shards than the cores take need more tasks."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The ranges of a batch that can be read, and the gaps that were found in it."""

    ranges: tuple[ShardRange, ...]
    gaps: tuple[Gap, ...] = ()


def fresh_ranges(
    committed: Offset,
    planned: Offset,
    retention: timedelta,
    taken: Mapping[str, Taken],
    spent_bytes: Callable[[str], int] = lambda _: 0,
) -> tuple[ShardRange, ...]:
    """Return the ranges of a batch that was planned just now, with their inline records.

    `spent_bytes` returns what planning has read of a shard: its task waits for that, too.
    """
    return tuple(
        _travelling(
            shard_id,
            item,
            _begins_at(committed, planned, shard_id),
            retention,
            taken.get(shard_id),
            spent_bytes=spent_bytes(shard_id),
        )
        for shard_id, item in sorted(planned.ranges.items())
        if not item.empty
    )


def confirm(
    service: StreamService,
    orders: Orders,
    committed: Offset,
    planned: Offset,
    *,
    fail_on_data_loss: bool,
    run_all: RunAll = run_together,
) -> Confirmed:
    """Return the ranges of a batch that an earlier process planned, however long ago.

    What expired meanwhile is an error, or a gap on record by choice.
    """
    full = {k: item for k, item in sorted(planned.ranges.items()) if not item.empty}
    if not full:
        return Confirmed(())
    described = service.describe()
    retention = timedelta(seconds=described.retention_seconds)
    now = described.service_time or read_time(service)
    begins = {k: _begins_at(committed, planned, k) for k in full}
    found = run_all(
        [_check_steps(orders, k, item, begins[k], now, retention) for k, item in full.items()]
    )
    ranges, gaps = [], []
    for (shard_id, item), evidence in zip(full.items(), found, strict=True):
        if evidence is None:
            continue
        since, gap = begins[shard_id], None
        if evidence is not Evidence.KEPT:
            gap = gap_at(
                shard_id,
                item.after,
                since or now - retention,
                now=now,
                retention=retention,
                reason=AGED,
            )
            if fail_on_data_loss:
                raise gap_error(gap)
            gaps.append(gap)
        if evidence is not Evidence.GONE:
            ranges.append(
                _travelling(shard_id, item, since, retention, None, has_gap=gap is not None)
            )
    return Confirmed(tuple(ranges), tuple(gaps))


def with_hash_ranges(
    ranges: Iterable[ShardRange], shards: Iterable[Shard]
) -> tuple[ShardRange, ...]:
    """Return ranges with the hash keys of their shards, as far as those are listed."""
    keys = {shard.id: shard.hash_range for shard in shards}
    return tuple(replace(item, hash_range=keys.get(item.shard_id)) for item in ranges)


def tasks(
    ranges: Sequence[ShardRange], shards_per_task: int | None, cores: int | None = None
) -> tuple[tuple[ShardRange, ...], ...]:
    """Share ranges among tasks, each whole range to one, in stable order.

    Records that travel with the plan need no reading, so that one task takes as many as it may.
    """
    to_read = [item for item in ranges if item.inline is None]
    count = task_count(len(to_read), shards_per_task, cores or os.cpu_count() or 2)
    shared = [to_read[index::count] for index in range(count)]
    carried: list[list[ShardRange]] = [[]]
    size_bytes = 0
    for item in ranges:
        if item.inline is None:
            continue
        size_bytes += len(item.inline)
        if size_bytes > INLINE_BYTES and carried[-1]:
            carried.append([])
            size_bytes = len(item.inline)
        carried[-1].append(item)
    nothing: list[ShardRange] = []
    both = zip_longest(carried, shared, fillvalue=nothing)
    return tuple(tuple(first + second) for first, second in both if first or second)


def task_count(shards: int, shards_per_task: int | None, cores: int) -> int:
    """Return how many tasks read so many shards."""
    if shards_per_task is not None:
        return -(-shards // shards_per_task)
    return min(shards, max(cores, -(-shards // _SHARDS_PER_TASK)))


def _check_steps(
    orders: Orders,
    shard_id: str,
    planned: Range,
    since: datetime | None,
    now: datetime,
    retention: timedelta,
) -> Steps[Evidence | None]:
    """Ask, if its age makes that doubtful, whether a range is still kept; None: leave it out."""
    if since is not None:
        verdict = judge(planned.after, since, now=now, retention=retention)
        if verdict is Verdict.SAFE:
            return Evidence.KEPT
    if not isinstance(planned.after, After):
        # Planned as the end of a shard in which nothing was: if it is gone, nothing is lost.
        checked = yield from orders.carry_out(Check(shard_id, None))
        kept = isinstance(checked, Checked) and checked.evidence is Evidence.KEPT
        return Evidence.KEPT if kept else None
    evidence = yield from orders.kept(shard_id, planned.after)
    ends_at = planned.as_of
    young = ends_at and not may_have_expired(ends_at, now=now, retention=retention)
    # A shard with a young record cannot be gone: the answer was stale, and a task asks again.
    return Evidence.KEPT if evidence is Evidence.GONE and young else evidence


def _travelling(
    shard_id: str,
    item: Range,
    since: datetime | None,
    retention: timedelta,
    taken: Taken | None,
    *,
    has_gap: bool = False,
    spent_bytes: int = 0,
) -> ShardRange:
    return ShardRange(
        shard_id,
        item,
        inline=None if taken is None or taken.inline is None else pack(taken.inline),
        is_last=taken is not None and taken.is_last,
        has_gap=has_gap,
        kept_until=since + retention - MARGIN if since is not None else None,
        begins_at=since,
        spent_bytes=spent_bytes,
    )


def _begins_at(committed: Offset, planned: Offset, shard_id: str) -> datetime | None:
    """Return the time before which nothing in the shard's next range can have arrived.

    Where nothing is committed of the shard, that is when the stream was made.
    """
    before = committed.ranges.get(shard_id)
    return (before.as_of if before is not None else None) or planned.created_at
