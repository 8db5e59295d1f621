"""How a backlog is planned: in few and long batches, with few calls, and hardly a record read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.spark.driver.inline_records import unpack
from tests.property.planning_query import KEYS, Query, World
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from shardline.core.positions import Position
    from shardline.services.port import Page, StreamService

MOST_SECONDS = 2.0
"""Of the service's time, from a question to the batch with the backlog."""


class Counted(World):
    """A world that counts what the planner reads."""

    reads = 0
    records = 0

    @property
    def service(self) -> StreamService:
        return self  # type: ignore[return-value]

    def __getattr__(self, name: str) -> object:
        return getattr(self.twin, name)

    def open(self, shard_id: str, position: Position) -> str:
        return self.twin.open(shard_id, position)

    def read(self, iterator: str, max_records: int) -> Page:
        page = self.twin.read(iterator, max_records)
        self.reads += 1
        self.records += page.records.num_rows
        return page


def backlog(records: int, per_second: int) -> Counted:
    """Return a stream of one shard with records that were put in batches of a tenth of a second."""
    world = Counted(KinesisTwin(shards=1))
    world.clock.advance(60)
    each = per_second // 10
    for number in range(records):
        world.put(KEYS[number % len(KEYS)])
        if number % each == each - 1:
            world.clock.advance(0.1)
    return world


@pytest.mark.case("Y-01")
@pytest.mark.parametrize("quiet_seconds", [8, 60, 3_600])
def test_a_backlog_that_ended_is_found_by_few_calls(quiet_seconds: int) -> None:
    world = backlog(5_000, per_second=5_000)
    world.clock.advance(quiet_seconds)
    query = Query(world)
    came: list[int] = []
    twice = 0
    while sum(came) < 5_000:
        world.records, committed, began = 0, query.committed(), query._now()
        planned = query.ask()
        assert planned is not None
        assert query._now() - began < MOST_SECONDS
        ranges = query.ranges(committed, planned)
        travel = sum(page.num_rows for item in ranges for page in unpack(item.inline or b""))
        twice += world.records - travel
        came.append(query.step())
    assert twice <= 40, "the driver reads what the executors read again"
    assert len(came) <= 3
    assert max(came) >= 3_000
    assert world.reads <= 24


@pytest.mark.case("Y-01")
def test_a_backlog_that_grows_on_is_found_by_one_call_at_a_late_time() -> None:
    world = backlog(3_000, per_second=100)
    query = Query(world)
    assert query.ask() is not None
    assert world.reads <= 3
    assert world.records <= 40
    assert query.step() >= 2_800
