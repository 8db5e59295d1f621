"""Nothing stops a query though nothing is lost: empty pages, races, wrong clocks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.offsets import Range
from shardline.core.positions import TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import PositionTrimmed
from shardline.services.steps import run
from shardline.spark.executor.range_reader import RangeReader, ShardRange
from tests.property.hard_streams import Sparse
from tests.property.planning_query import KEYS, Query, TableWorld, World
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    import pyarrow as pa

    from shardline.services.port import Page

HOUR = 3600.0
FIRST = "shardId-000000000000"


@pytest.mark.case("X-16")
def test_empty_pages_fail_no_task_while_the_lag_falls() -> None:
    world = World(KinesisTwin(1))
    for _ in range(20):
        world.put(KEYS[0])
    world.clock.advance(60)
    last = run(_last_of(world))
    service: Any = Sparse(world.service, 1500)  # for longer than a task waits without progress
    item = ShardRange(FIRST, Range(TRIM_HORIZON, last))
    found: list[pa.RecordBatch] = []
    reader = RangeReader(
        service,
        item,
        lambda _, page: found.append(page),
        clock=lambda: world.clock.now_ms() / 1000,
    )
    run(reader.read_steps(), sleep=world.sleep)
    assert sum(page.num_rows for page in found) == 20


def _last_of(world: World) -> Any:
    def read() -> After:
        page = world.service.read(world.service.open(FIRST, TRIM_HORIZON), 10_000)
        return After(SequenceNumber(page.records.column("sequenceNumber")[19].as_py()))

    return (yield read)


@pytest.mark.case("X-21")
@pytest.mark.parametrize("times", [1, 20])
def test_a_horizon_that_moves_while_it_is_read_is_asked_for_again(times: int) -> None:
    world = TableWorld(1)
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(1)
    inner, left = world._service, iter(range(times))
    opened: dict[str, Position] = {}

    class Race:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def open(self, shard_id: str, position: Position) -> str:
            iterator = inner.open(shard_id, position)
            opened[iterator] = position
            return iterator

        def read(self, iterator: str, max_records: int) -> Page:
            if opened.get(iterator) == TRIM_HORIZON and next(left, None) is not None:
                raise PositionTrimmed("the record at the iterator was trimmed meanwhile")
            return inner.read(iterator, max_records)

    world._service = Race()  # type: ignore[assignment]
    query = Query(world)
    query.run_dry()
    assert world.checker.verdict().require().delivered == 10
    assert not query.last().gaps


@pytest.mark.case("X-22")
def test_once_on_a_busy_table_ends_at_its_start_and_keeps_no_pages() -> None:
    world = TableWorld(1)
    inner = world._service
    most = 0

    class Busy:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def read(self, iterator: str, max_records: int) -> Page:
            for _ in range(20):  # a writer that never pauses
                world.put(KEYS[0])
            world.clock.advance(0.1)
            return inner.read(iterator, max_records)

    world._service = Busy()  # type: ignore[assignment]
    for _ in range(100):
        world.put(KEYS[0])
    query = Query(world, max_records=None)
    while query.step() < 100:
        assert query.commits < 5, "it does not end"
        kept = [batch for tip in query.planner._tips.values() for batch in tip.inline]
        most = max(most, sum(batch.nbytes for batch in kept))
    assert most <= 1_000_000


@pytest.mark.case("X-31")
def test_one_empty_listing_and_one_wrong_clock_are_survived() -> None:
    world = World(KinesisTwin(1))
    query = Query(world)
    world.put(KEYS[0])
    query.run_dry()
    listings, read = world.twin.list_shards, world.twin.read
    empty, wrong = iter(range(1)), iter(range(1))
    world.twin.list_shards = (  # type: ignore[method-assign]
        lambda: () if next(empty, None) is not None else listings()
    )

    def wrong_once(iterator: str, max_records: int) -> Page:
        page = read(iterator, max_records)
        if next(wrong, None) is not None:
            return replace(page, service_time=page.service_time + timedelta(days=400))
        return page

    world.twin.read = wrong_once  # type: ignore[method-assign]
    query.settle(12)
    world.put(KEYS[1])
    query.run_dry()
    assert world.checker.verdict().require().delivered == 2
    assert not query.last().gaps
