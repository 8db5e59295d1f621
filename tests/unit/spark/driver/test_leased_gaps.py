"""Quiet shards, gaps, names, and one source of an app under one driver."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shardline.core.offsets import Gap, Offset, Range
from shardline.core.planning import Standpoint
from shardline.core.positions import TRIM_HORIZON
from shardline.errors import ConfigurationError, GapError
from shardline.spark.driver.leased import _require_only_one, leased_owner
from shardline.spark.options import KINESIS, read_options
from tests.unit.spark.driver.leased_world import (
    FIRST,
    SECOND,
    World,
    finish,
)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.req("K-02")
def test_a_quiet_shard_beside_a_busy_one_costs_few_writes_and_becomes_no_gap(world: World) -> None:
    world.put(20)
    app = world.app("ada")
    world.run(app, until=world.all_delivered)
    world.run(app, steps=20)
    before = world.table.row(SECOND).lease_count
    for _ in range(30 * 12):  # longer than records are kept
        world.put_into(FIRST)
        app.step()
        world.pass_seconds(300)
    assert world.table.row(SECOND).lease_count - before <= 31, "about one an hour"
    app.leave()
    world.pass_seconds(60)
    again = world.app("grace")
    world.put(20)
    finish(world, again)


def test_a_position_that_is_gone_is_not_stood_on_again(world: World) -> None:
    """DynamoDB Streams says of a trimmed position each time that it is."""
    world.put(10)
    app = world.app("ada", goes_on=True)
    world.run(app, steps=3)
    now = world.twin.clock.now()
    lease = app.coordinator.held()[FIRST]
    gap = Gap(FIRST, lease.checkpoint, None, now, "trimmed")
    ranges = {FIRST: Range(TRIM_HORIZON, TRIM_HORIZON, None, lease.epoch)}
    committed = Offset(TRIM_HORIZON, now, ranges, {}, (gap,))
    app.owner.confirm(committed)
    app.owner.acknowledge(committed)
    ground = app.owner.settle(
        committed, (), created_at=now, now=now, retention=timedelta(days=1), gone=frozenset()
    )
    assert ground.standpoints[FIRST] == Standpoint(TRIM_HORIZON, None)
    assert ground.standpoints[SECOND] != Standpoint(TRIM_HORIZON, None)


@pytest.mark.req("K-02")
@pytest.mark.case("L-17")
def test_a_trimmed_position_is_an_error_by_default(world: World) -> None:
    _fall_behind(world)
    app = world.app("grace")
    with pytest.raises(GapError, match="gap in shardId-00000000000"):
        world.run(app, steps=5)


@pytest.mark.req("K-02")
@pytest.mark.case("L-17", "T-09")
def test_going_on_after_a_gap_is_recorded_in_the_lease_row_once(world: World) -> None:
    _fall_behind(world)
    app = world.app("grace", goes_on=True)
    world.run(app, steps=30)
    batches = len(app.disk.offsets)
    for shard_id in (FIRST, SECOND):
        assert world.table.row(shard_id).gap.startswith("behind After("), shard_id
        assert world.table.row(shard_id).gap.count("noticed") == 1
        world.checker.gap(shard_id)
    world.run(app, steps=30)
    assert len(app.disk.offsets) - batches <= 2, "a gap is news once"
    world.put(20)
    finish(world, app)


def _fall_behind(world: World) -> None:
    """Read a little, then be away for longer than the stream keeps records."""
    world.put(20)
    app = world.app("ada")
    world.run(app, until=world.all_delivered)
    world.put(20)
    app.leave()
    world.pass_seconds(30 * 3600)


@pytest.mark.req("K-02")
def test_a_child_that_waits_for_longer_than_records_are_kept_is_a_gap() -> None:
    world = World(shards=1)
    world.put(20)
    app = world.app("ada")
    world.run(app, until=world.all_delivered)
    world.run(app, steps=20)
    children = world.split(FIRST)
    world.put(20)
    while not set(children) <= world.table.owners().keys():
        if app.plan():
            app.run_batch()
            app.commit()
        world.pass_seconds()
        app.coordinator.tick()
    app.planner.stop()
    assert world.checker.verdict().lost == 20
    world.pass_seconds(30 * 3600)
    again = world.app("grace")
    with pytest.raises(GapError, match=f"gap in ({'|'.join(children)})"):
        world.run(again, steps=20)


def test_a_second_source_of_the_same_app_is_refused() -> None:
    first = _require_only_one("billing-of-this-test", "orders")
    try:
        with pytest.raises(ConfigurationError, match="one leased load"):
            _require_only_one("billing-of-this-test", "orders")
        _require_only_one("another-app", "orders").close()
        _require_only_one("billing-of-this-test", "other-stream").close()
    finally:
        first.close()
    again = _require_only_one("billing-of-this-test", "orders")
    again.close()
    Path(again.name).unlink()


@pytest.mark.req("K-15")
@pytest.mark.case("W-03")
def test_two_workers_have_two_names_even_if_nobody_named_them(tmp_path: Path) -> None:
    owners = [
        _owner_of(tmp_path, app_name, worker_name)
        for app_name, worker_name in (("a", None), ("b", None), ("c", "ada"), ("d", "ada"))
    ]
    assert len(set(owners)) == 4
    assert len({owner.partition("/")[0] for owner in owners[:2]}) == 2
    assert {owner.partition("/")[0] for owner in owners[2:]} == {"ada"}


def _owner_of(folder: Path, app_name: str, worker_name: str | None) -> str:
    given = {
        "streamName": "orders", "appName": app_name, "leaseTable": f"sqlite:///{folder}/leases.db",
        "startingPosition": "trim_horizon",
    }  # fmt: skip
    options = read_options(KINESIS, given | ({"workerName": worker_name} if worker_name else {}))
    assert options.leases is not None
    owner = leased_owner(options, options.leases, World().twin)
    owner.release()
    return owner._coordinator.owner


def test_the_table_says_where_each_shard_goes_on_and_not_the_start(tmp_path: Path) -> None:
    options = read_options(
        KINESIS, {"streamName": "orders", "appName": "e", "leaseTable": f"sqlite:///{tmp_path}/x"}
    )
    assert options.leases is not None
    moved = replace(options, resume=Offset(TRIM_HORIZON))  # what a token becomes
    with pytest.raises(ConfigurationError, match="trim_horizon, latest or a time"):
        leased_owner(moved, options.leases, World().twin)
