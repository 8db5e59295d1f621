"""The limits of a batch: most records, of one shard too, most bytes, and fewest records."""

from __future__ import annotations

import pytest

from shardline.core.promise import RecordRef
from tests.property.planning_query import KEYS, Query, World
from tests.twins.kinesis import KinesisTwin

RECORD_BYTES = 2_000


def world_of(records: int, per_second: int, shards: int = 2, size: int = RECORD_BYTES) -> World:
    """Return a world in which records of one size were written, some each second."""
    world = World(KinesisTwin(shards=shards))
    put(world, records, per_second, size)
    return world


def put(world: World, records: int, per_second: int, size: int = RECORD_BYTES) -> None:
    for n in range(records):
        key = KEYS[n % len(KEYS)]
        written = world.twin.put(key, bytes(size))
        world.checker.wrote(written.shard_id, RecordRef(key, int(written.sequence)))
        if n % per_second == per_second - 1:
            world.clock.advance(1)


def sizes(query: Query) -> list[dict[str, int]]:
    """Return how many records each batch held of each shard."""
    batches: list[dict[str, int]] = [{} for _ in range(query.commits)]
    for (batch, shard_id), refs in query.delivered_refs.items():
        batches[batch][shard_id] = len(refs)
    return [batch for batch in batches if batch]


def run_dry(query: Query) -> list[dict[str, int]]:
    query.run_dry()
    verdict = query.world.checker.verdict().require()
    assert verdict.delivered == verdict.written
    return sizes(query)


@pytest.mark.parametrize("per_second", [3, 40, 900])
def test_no_batch_holds_more_of_a_shard_than_it_may(per_second: int) -> None:
    world = world_of(600, per_second)
    batches = run_dry(Query(world, settings={"max_records_per_shard": 25}))
    assert max(max(batch.values()) for batch in batches) <= 25


@pytest.mark.parametrize("per_second", [3, 40, 900])
def test_no_batch_holds_more_bytes_than_it_may(per_second: int) -> None:
    world = world_of(600, per_second)
    batches = run_dry(Query(world, settings={"max_bytes": 100_000}))
    assert max(sum(batch.values()) for batch in batches) * RECORD_BYTES <= 100_000


def test_a_record_that_is_bigger_than_a_batch_may_be_comes_alone() -> None:
    world = world_of(5, 1, shards=1, size=30_000)
    batches = run_dry(Query(world, settings={"max_bytes": 10_000}))
    assert [sum(batch.values()) for batch in batches] == [1] * 5


def test_few_records_wait_for_more_or_for_the_delay() -> None:
    world = World(KinesisTwin(shards=2))
    query = Query(world, settings={"min_records": 10, "max_delay_seconds": 20.0})
    assert query.step() == 0  # where it starts
    put(world, 4, 100)
    assert query.step_soon(seconds=10) == -1
    put(world, 8, 100)
    assert query.step_soon(seconds=5) == 12
    put(world, 3, 100)
    assert query.step_soon(seconds=15) == -1
    assert query.step_soon(seconds=15) == 3  # by now it has waited for long enough


def test_what_is_there_is_enough_for_a_query_that_ends() -> None:
    world = world_of(4, 100)
    query = Query(world, settings={"min_records": 10, "max_delay_seconds": 3600.0})
    query.set_target()
    while query.step() != -1:
        pass
    assert query.world.checker.verdict().require().delivered == 4
