"""A driver that comes back: the table is the truth, and only what was delivered is acknowledged."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from tests.unit.spark.driver.leased_world import (
    FIRST,
    SECOND,
    World,
    finish,
    planned_then_killed,
)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.req("K-10")
@pytest.mark.case("R-10", "R-13")
def test_the_same_name_goes_on_with_the_planned_batch(world: World) -> None:
    app = planned_then_killed(world)
    planned = app.disk.offsets[-1].ranges
    epochs = {k: world.table.row(k).epoch for k in planned}
    ranges = app.run_batch()
    assert {r.shard_id for r in ranges} == {k for k, v in planned.items() if not v.empty}
    for item in ranges:
        assert item.range.epoch == epochs[item.shard_id] + 1
        assert (item.range.after, item.range.upto) == (
            planned[item.shard_id].after, planned[item.shard_id].upto,
        )  # fmt: skip
    app.commit()
    finish(world, app)
    assert world.checker.verdict().repeated == 0


@pytest.mark.case("R-10")
def test_a_batch_is_decided_once(world: World) -> None:
    app = planned_then_killed(world)
    assert [r.range for r in app.partitions()] == [r.range for r in app.partitions()]


@pytest.mark.case("W-02", "R-03")
def test_another_name_waits_for_the_lease_and_drops_what_was_planned(world: World) -> None:
    """A checkpoint folder that moves to a worker of another name tells nothing about leases."""
    app = planned_then_killed(world)
    heir = world.app("grace", disk=app.disk)
    assert heir.run_batch() == []  # ada's leases have not run out
    heir.commit()
    heir.owner.acknowledge(heir.disk.offsets[-1])
    rows = {k: world.table.row(k).checkpoint for k in (FIRST, SECOND)}
    planned = heir.disk.offsets[-1].ranges
    for shard_id, checkpoint in rows.items():
        item = planned[shard_id]
        assert item.empty or checkpoint != item.upto, "acknowledged what it did not deliver"
    finish(world, heir)


@pytest.mark.case("W-02", "R-03")
def test_a_shard_that_another_worker_had_in_between_is_dropped(world: World) -> None:
    app = planned_then_killed(world)
    other = world.app("grace")
    world.run(other, until=lambda: set(world.table.owners().values()) == {"grace"})
    other.leave()  # and gives it back: free, under a higher epoch
    assert app.run_batch() == []
    app.commit()
    world.put(10)
    finish(world, app)


@pytest.mark.case("W-02", "R-03")
def test_a_planned_range_is_dropped_where_the_table_has_gone_on(world: World) -> None:
    """The same take, but the row's checkpoint is not where the range begins."""
    app = planned_then_killed(world)
    planned = {k: v for k, v in app.disk.offsets[-1].ranges.items() if not v.empty}
    shard_id, item = next(iter(planned.items()))
    row = world.table.row(shard_id)
    moved = After(SequenceNumber(str(int(item.upto.sequence) - 1)))  # type: ignore[union-attr]
    world.table._rows["billing", "orders"][shard_id] = replace(row, checkpoint=moved)
    assert shard_id not in {r.shard_id for r in app.run_batch()}


@pytest.mark.case("R-03")
def test_a_dropped_range_is_never_acknowledged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    app = planned_then_killed(world)
    other = world.app("grace")
    world.run(other, until=lambda: "grace" in world.table.owners().values())
    before = {k: world.table.row(k).checkpoint for k in (FIRST, SECOND)}
    with caplog.at_level(logging.WARNING):
        kept = {r.shard_id for r in app.partitions()}
    assert kept == set()
    assert "dropped from a planned batch" in caplog.text
    app.commit()  # Spark commits a batch of which nothing was read
    app.owner.acknowledge(app.disk.offsets[-1])
    for _ in range(3):
        world.pass_seconds(13)
        app.coordinator.tick()
    after = {k: world.table.row(k).checkpoint for k in (FIRST, SECOND)}
    assert before == after
    finish(world, app, other)


@pytest.mark.case("R-03")
def test_what_another_process_committed_is_not_acknowledged_here(world: World) -> None:
    """Killed after the commit log and before the next plan: the table does not know, so repeat."""
    app = planned_then_killed(world)
    app.run_batch()
    app.commit()
    app.start()
    finish(world, app)
    assert world.checker.verdict().repeated > 0


@pytest.mark.req("K-02")
@pytest.mark.case("R-13")
def test_what_others_have_read_meanwhile_is_no_gap_of_a_late_restart(world: World) -> None:
    app = planned_then_killed(world)
    other = world.app("grace")
    for _ in range(8):
        world.put(5)
        world.run(other, steps=40, until=world.all_delivered)
        world.pass_seconds(5 * 3600)
    world.run(other, steps=3)
    assert app.run_batch() == []
    app.commit()
    world.put(10)
    finish(world, app, other)


@pytest.mark.req("K-09")
def test_a_batch_is_known_by_what_is_written_down(world: World) -> None:
    """An offset from memory may hold finer times than the one that Spark gives back."""
    world.put(10)
    app = world.app("ada")
    app.step()
    written = app.disk.offsets[-1]
    finer = replace(
        written,
        ranges={
            k: replace(v, as_of=v.as_of and v.as_of + timedelta(microseconds=7))
            for k, v in written.ranges.items()
        },
    )
    app.owner.acknowledge(finer)
    app.planner.stop()
    for shard_id, item in written.ranges.items():
        assert world.table.row(shard_id).checkpoint == item.upto
