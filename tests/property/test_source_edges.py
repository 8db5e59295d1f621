"""Nothing is lost without a word: pauses, late tasks, empty pages, stale answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import TRIM_HORIZON, AtTime, Position
from shardline.errors import GapError
from shardline.services.steps import run
from shardline.spark.driver.batch import plan_once
from shardline.spark.executor.range_reader import RangeReader
from shardline.spark.options import read_options
from tests.property.hard_streams import Flaky, Sparse, SparseWorld
from tests.property.planning_query import KEYS, Crash, Query, TableWorld, World
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    import pyarrow as pa

    from shardline.services.port import Page

HOUR = 3600.0
FIRST = "shardId-000000000000"


def parent_and_child() -> World:
    """A parent with 10 records of ten minutes, and its child with 20 of more than three hours."""
    world = World(KinesisTwin(1))
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(60)
    world.split(0)
    for _ in range(20):
        world.put(KEYS[0])
        world.clock.advance(600)
    return world


def drain_parent(query: Query) -> None:
    while query.last().ranges.get(FIRST) is None or not query.last().ranges[FIRST].ends:
        assert query.step_soon() != -1


@pytest.mark.case("X-01")
def test_a_pause_after_the_parent_was_drained_is_a_gap_in_the_child() -> None:
    world = parent_and_child()
    query = Query(world)
    query.step()
    drain_parent(query)
    world.clock.advance(22 * HOUR)
    query.restart()
    with pytest.raises(GapError, match="after its beginning"):
        query.run_dry()


@pytest.mark.case("X-01")
def test_a_child_that_waits_behind_a_slow_parent_for_a_day_is_a_gap() -> None:
    world = World(KinesisTwin(1))
    for _ in range(30):
        world.put(KEYS[0])
        world.clock.advance(60)
    world.split(0)
    for _ in range(20):
        world.put(KEYS[0])
        world.clock.advance(60)
    query = Query(world, max_records=1)
    while world.checker.verdict().lost > 20:
        query.step_soon()
        world.clock.advance(2400)
    world.clock.advance(6 * HOUR)
    with pytest.raises(GapError):
        query.run_dry()


@pytest.mark.case("X-01")
def test_once_every_23_hours_says_what_expired_between_the_runs() -> None:
    world = parent_and_child()
    query = Query(world, max_records=None)
    query.step_soon()
    query.restart()
    world.clock.advance(23 * HOUR)
    with pytest.raises(GapError):
        query.step_soon()


@pytest.mark.case("X-15")
@pytest.mark.parametrize("at_time", [False, True])
def test_a_child_that_waits_for_a_slow_parent_is_no_gap(at_time: bool) -> None:
    world = World(KinesisTwin(1))
    for _ in range(72):
        world.put(KEYS[0])
        world.clock.advance(600)
    start = AtTime(world.clock.now() - timedelta(hours=11)) if at_time else TRIM_HORIZON
    query = Query(world, start=start, max_records=1)
    query.step()
    world.split(0)
    for _ in range(5):
        world.put(KEYS[0])
    while query.step_soon() != -1:
        world.clock.advance(800)  # 77 records in 17 hours: nothing unread is ever a day old
    verdict = world.checker.verdict()
    assert verdict.lost <= (6 if at_time else 0)  # those before the start
    assert not query.last().gaps


@pytest.mark.case("X-02")
def test_a_first_batch_that_is_run_again_two_hours_later_does_not_shrink() -> None:
    world = World(KinesisTwin(1))
    for _ in range(100):
        world.put(KEYS[0])
        world.clock.advance(14 * 60)  # for 23 hours
    query = Query(world)
    with pytest.raises(Crash):
        query.step_soon(crash_at="planned")
    world.clock.advance(2 * HOUR)
    query.restart()
    with pytest.raises(GapError, match="gap in"):
        query.step()


@pytest.mark.case("X-02")
@pytest.mark.parametrize("first", [True, False])
def test_a_task_that_gets_its_core_too_late_fails_instead_of_reading_less(first: bool) -> None:
    world = World(KinesisTwin(1))
    for _ in range(100):
        world.put(KEYS[0])
        world.clock.advance(60)
    query = Query(world, max_records=20)
    query.step()
    if not first:
        while world.checker.verdict().delivered < 20:
            query.step_soon()
    query.max_records = 1000
    while (planned := query.ask()) is None:
        query.settle(0.3)
    items = [replace(item, inline=None) for item in query.ranges(query.committed(), planned)]
    (item,) = items
    rows = sum(page.num_rows for page in query.read_again(item))
    assert rows
    oldest = item.kept_until
    assert oldest is not None
    late = (oldest - world.clock.now()).total_seconds() + 22 * 60
    world.clock.advance(late)
    with pytest.raises(GapError, match="gap in"):
        query.read_again(item)


@pytest.mark.case("X-02")
def test_a_task_near_the_horizon_that_finds_its_beginning_reads_all() -> None:
    world = World(KinesisTwin(1))
    for _ in range(30):
        world.put(KEYS[0])
        world.clock.advance(60)
    query = Query(world, max_records=20)
    query.step()
    while world.checker.verdict().delivered < 20:
        query.step_soon()
    while (planned := query.ask()) is None:
        query.settle(0.3)
    (item,) = query.ranges(query.committed(), planned)
    item = replace(item, inline=None, kept_until=world.clock.now())
    assert sum(page.num_rows for page in query.read_again(item)) == 10


@pytest.mark.case("X-03")
@pytest.mark.parametrize("start_at_time", [True, False])
def test_a_parent_that_the_first_listing_lacks_is_read_all_the_same(start_at_time: bool) -> None:
    world = World(Flaky(1))
    world.clock.advance(60)
    start = AtTime(world.clock.now()) if start_at_time else TRIM_HORIZON
    world.clock.advance(60)
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(10)
    world.split(0)
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(10)
    query = Query(world, start=start)
    assert isinstance(world.twin, Flaky)
    world.twin.hidden = frozenset({FIRST})
    query.step()
    world.twin.hidden = frozenset()
    query.run_dry()
    assert world.checker.verdict().require().delivered == 20


@pytest.mark.case("X-04")
@pytest.mark.parametrize(
    ("table", "pages"), [(False, 0), (False, 4), (False, 300), (True, 4), (True, 200)]
)
def test_a_bounded_read_goes_past_any_number_of_empty_pages(pages: int, table: bool) -> None:
    world = TableWorld(1) if table else World(KinesisTwin(1))
    for _ in range(25):
        world.put(KEYS[0])
        world.clock.advance(1)
    world.merge(0) if table else world.split(0)
    for _ in range(25):
        world.put(KEYS[0])
        world.clock.advance(1)
    world.clock.advance(HOUR)
    service: Any = Sparse(world.service, pages)
    given = {"tableName": "users"} if table else {"streamName": "twin"}
    options = read_options(
        "dynamodb-streams" if table else "kinesis", given | {"startingPosition": "trim_horizon"}
    )

    def now() -> float:
        return world.clock.now_ms() / 1000

    ranges = plan_once(
        service,
        options,
        clock=now,
        run_all=lambda all_steps: [run(one, sleep=world.sleep) for one in all_steps],
    )
    found: list[pa.RecordBatch] = []
    for item in ranges:
        reader = RangeReader(service, item, lambda _, page: found.append(page), clock=now)
        run(reader.read_steps(), sleep=world.sleep)
    assert sum(page.num_rows for page in found) == 50


@pytest.mark.case("X-05")
@pytest.mark.parametrize("pages", [5, 60])
def test_available_now_on_a_table_goes_past_any_number_of_empty_pages(pages: int) -> None:
    world = TableWorld(1)
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(1)
    world.merge(0)
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(1)
    query = Query(SparseWorld(world, pages), max_records=1000)
    query.set_target()
    while query.step() != -1:
        pass
    verdict = world.checker.verdict()
    assert verdict.delivered >= 10, "the closed shard was not read to its end"
    query.restart()
    query.set_target()
    while query.step() != -1:
        pass
    assert world.checker.verdict().require().delivered == 20


@pytest.mark.case("X-07")
@pytest.mark.parametrize("fails", [True, False])
def test_a_generation_that_came_and_went_unseen_is_a_gap(fails: bool) -> None:
    world = World(Flaky(2))
    twin = world.twin
    assert isinstance(twin, Flaky)
    for _ in range(6):
        world.put(KEYS[0])
        world.put(KEYS[1])
        world.clock.advance(1)
    query = Query(world, fail_on_data_loss=fails)
    query.run_dry()
    world.merge(0)
    (child,) = (shard.id for shard in twin.list_shards() if not shard.closed)
    twin.hidden = frozenset({child})  # the last listing of the run is a moment old
    query.run_dry()
    twin.hidden = frozenset()
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(60)
    twin.split(child)
    world._tell_shards()
    world.clock.advance(25 * HOUR)
    for _ in range(5):
        world.put(KEYS[0])
        world.clock.advance(1)
    world.checker.gap(child)
    query.restart()
    if fails:
        with pytest.raises(GapError, match=rf"gap in {child}.*came and went.*hash keys"):
            query.run_dry()
        return
    query.run_dry()
    assert child in {gap.shard_id for gap in query.last().gaps}
    assert world.checker.verdict().require().in_gaps == 10


@pytest.mark.case("X-09")
def test_an_iterator_that_ends_in_an_open_shard_does_not_end_it() -> None:
    world = World(KinesisTwin(1))
    read = world.twin.read
    cut = iter(range(3))

    def ends(iterator: str, max_records: int) -> Page:
        page = read(iterator, max_records)
        if next(cut, None) is not None:
            return replace(page, records=page.records.slice(0, 0), next_iterator=None)
        return page

    for _ in range(10):
        world.put(KEYS[0])
    world.twin.read = ends  # type: ignore[method-assign]
    query = Query(world)
    query.run_dry()
    assert not query.last().drained
    assert world.checker.verdict().require().delivered == 10


@pytest.mark.case("X-11")
def test_a_young_shard_that_a_stale_machine_does_not_know_is_not_given_up() -> None:
    world = World(Flaky(1))
    world.put(KEYS[0])
    query = Query(world, fail_on_data_loss=False)
    query.run_dry()
    world.split(0)
    for _ in range(10):
        world.put(KEYS[0])
        world.clock.advance(1)
    query.step_soon()
    query.settle(6)
    assert isinstance(world.twin, Flaky)
    world.twin.hidden = frozenset({"shardId-000000000001", "shardId-000000000002"})
    for _ in range(10):
        query.step()
        query.settle(1)
    world.twin.hidden = frozenset()
    query.run_dry()
    assert world.checker.verdict().require().delivered == 11
    assert not query.last().gaps


class Skewed(KinesisTwin):
    """A stream whose children are stamped by a machine that is two seconds slow."""

    def open(self, shard_id: str, position: Position) -> str:
        if isinstance(position, AtTime) and shard_id != FIRST:
            position = AtTime(position.time + timedelta(seconds=2))
        return super().open(shard_id, position)


@pytest.mark.case("X-12")
def test_after_a_start_at_a_time_lineage_rules_not_the_stamps_of_a_slow_machine() -> None:
    world = World(Skewed(1))
    world.clock.advance(60)
    start = world.clock.now()
    world.clock.advance(0.2)
    for _ in range(5):
        world.put(KEYS[0])
    world.split(0)
    for _ in range(5):
        world.put(KEYS[0])
    world.clock.advance(5)
    query = Query(world, start=AtTime(start))
    query.run_dry()
    assert world.checker.verdict().require().delivered == 10
