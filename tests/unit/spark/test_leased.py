"""Shards planned under leases: the table is the truth, and only what was delivered is acknowledged.

Restarts, hand-overs and losses, one by one, with real planners and coordinators; the checker
judges every delivery and every checkpoint that reached the table.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardline.core.offsets import Gap, Offset, Range
from shardline.core.planning import Standpoint
from shardline.core.shards import TRIM_HORIZON, After, SequenceNumber
from shardline.errors import ConfigurationError, GapError
from shardline.leases.port import TableUnavailable
from shardline.spark.leased import _require_only_one, leased_owner
from shardline.spark.options import KINESIS, read_options
from tests.unit.spark.leased_world import LEASE_SECONDS, App, World

if TYPE_CHECKING:
    from tests.unit.spark.leased_world import Event

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"


@pytest.fixture
def world() -> World:
    return World()


def finish(world: World, *apps: App) -> None:
    """Run until all is delivered and acknowledged in the table, and judge."""
    world.run(*apps, until=world.all_delivered)
    for app in apps:
        app.leave()
    verdict = world.checker.verdict().require()
    assert verdict.stale == 0


# --- the sequence of a shard's life ---------------------------------------------------------


@pytest.mark.req(
    "K-08", "K-09", "K-14", "K-22", "K-23", "K-24", "K-26", "K-28", "K-29", "K-33", "K-36", "K-37",
    "K-40", "K-41", "K-42", "K-45", "K-46", "K-47", "K-49", "K-50", "K-51", "K-53", "P-02", "P-03",
)  # fmt: skip
@pytest.mark.case("L-06", "L-08", "R-06")
def test_a_shard_goes_through_its_life_in_order(world: World) -> None:
    world.put(20)
    app = world.app("ada")
    world.run(app, until=world.all_delivered)
    world.run(app, steps=20)
    children = world.split(FIRST)
    world.put(20)
    world.run(app, until=world.all_delivered)
    world.run(app, steps=20)
    app.leave()
    world.checker.verdict().require()
    assert _life(world.events, FIRST) == [
        "row", "taken", "started", "read", "delivered", "checkpoint", "ended", "completed",
    ]  # fmt: skip
    for child in children:
        assert _life(world.events, child)[:5] == ["row", "taken", "started", "read", "delivered"]
        assert world.events.index(("completed", FIRST)) < world.events.index(("taken", child))
    assert _life(world.events, SECOND)[-1] == "released"
    assert "ended" not in _life(world.events, SECOND)
    assert world.table.row(FIRST).completed
    assert not world.table.owners()


@pytest.mark.req("K-38", "K-39")
def test_an_empty_checkpoint_is_the_beginning_and_another_is_strictly_behind(world: World) -> None:
    world.put(10)
    app = world.app("ada")
    app.step()
    app.leave()
    again = world.app("grace")
    world.put(10)
    finish(world, again)
    assert world.checker.verdict().repeated == 0


@pytest.mark.req("K-35", "K-43", "K-44")
def test_never_more_than_was_asked_for_and_the_rest_by_itself(world: World) -> None:
    world.put(50)
    app = world.app("ada")
    app.max_records = 7
    sizes = []
    app.fails = lambda batch: sizes.append((len(app.disk.offsets), len(batch)))
    world.run(app, until=world.all_delivered)
    per_batch = {number: 0 for number, _ in sizes}
    for number, size in sizes:
        per_batch[number] += size
    assert max(per_batch.values()) <= 7
    finish(world, app)


# --- restarts ---------------------------------------------------------------------------------


def planned_then_killed(world: World, name: str = "ada") -> App:
    """Return an application whose driver died between planning a batch and running it."""
    world.put(20)
    app = world.app(name)
    world.run(app, until=world.all_delivered)
    app.owner.acknowledge(app.disk.offsets[-1])
    world.pass_seconds(20)
    app.step()  # checkpoints are on the table now
    world.put(20)
    world.run(app, steps=1)
    while len(app.disk.offsets) - 1 == app.disk.committed:
        world.pass_seconds(0.5)
        app.coordinator.tick()
        app.plan()
    app.start()
    return app


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


# --- hand-over and loss -----------------------------------------------------------------------


@pytest.mark.req("K-05", "K-06", "K-07", "K-31", "P-02")
@pytest.mark.case("W-17")
def test_a_newcomer_gets_its_share_between_batches_and_nothing_is_repeated(world: World) -> None:
    world.put(30)
    ada = world.app("ada")
    world.run(ada, until=world.all_delivered)
    world.put(20)
    world.pass_seconds()
    assert ada.plan()
    planned = {k for k, v in ada.disk.offsets[-1].ranges.items() if not v.empty}
    assert planned == {FIRST, SECOND}
    grace = world.app("grace")
    while not any(lease.finishing for lease in ada.coordinator.held().values()):
        grace.step()  # it asks, while ada's batch is under way
        ada.coordinator.tick()
        world.pass_seconds()
    assert {r.shard_id for r in ada.run_batch()} == planned
    ada.coordinator.tick()
    assert set(world.table.owners().values()) == {"ada"}, "given away in mid-batch"
    ada.commit()

    def shared() -> bool:
        return sorted(world.table.owners().values()) == ["ada", "grace"]

    world.run(ada, grace, until=shared)
    world.put(20)
    finish(world, ada, grace)
    assert world.checker.verdict().repeated == 0
    assert ada.owner._counts["handed_over"] == 1


@pytest.mark.req("K-31", "K-36")
def test_a_new_lease_is_planned_without_waiting_for_the_next_look() -> None:
    world = World(shards=1)
    ada = world.app("ada")
    world.run(ada, steps=3)
    grace = world.app("grace")
    world.run(ada, grace, steps=12)
    while grace.plan():  # until it knows that it has nothing to do
        grace.commit()
    ada.leave()
    grace.coordinator.tick()
    assert grace.held == {FIRST}
    assert not grace.plan(), "it looks now and then only"
    world.pass_seconds(0.3)
    assert grace.plan()


@pytest.mark.case("W-02", "R-03")
def test_a_lease_that_was_lost_and_won_back_has_another_epoch(world: World) -> None:
    world.put(20)
    ada = world.app("ada")
    world.run(ada, until=world.all_delivered)
    world.put(20)
    world.pass_seconds()
    assert ada.plan()
    grace = world.app("grace")
    world.run(grace, until=lambda: set(world.table.owners().values()) == {"grace"})
    grace.leave()
    ada.coordinator.tick()
    ada.coordinator.tick()
    assert ada.held == {FIRST, SECOND}
    assert ada.run_batch() == []
    ada.commit()
    world.put(10)
    finish(world, ada)


@pytest.mark.case("W-18")
def test_leaving_gives_all_back_at_once_and_a_deploy_repeats_nothing(world: World) -> None:
    world.put(30)
    ada = world.app("ada")
    world.run(ada, until=world.all_delivered)
    world.put(10)
    ada.step()
    ada.leave()
    assert not world.table.owners()
    grace = world.app("grace")
    grace.step()
    assert set(world.table.owners().values()) == {"grace"}
    world.put(10)
    finish(world, grace)
    assert world.checker.verdict().repeated == 0


@pytest.mark.req("K-11", "K-32")
@pytest.mark.case("W-01", "W-02")
def test_a_zombie_cannot_checkpoint_learns_that_it_lost_and_goes_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.put(30)
    ada = world.app("ada")
    world.run(ada, until=world.all_delivered)
    world.put(40)
    world.pass_seconds()
    assert ada.plan()
    lost = {k for k, v in ada.disk.offsets[-1].ranges.items() if not v.empty}
    grace = world.app("grace")

    def sleep_through_the_lease() -> None:
        """Stop in the middle of the first batch, for so long that the others take over."""
        if "grace" not in world.table.owners().values():
            for _ in range(40):
                grace.step()
                world.pass_seconds()
            assert set(world.table.owners().values()) == {"grace"}

    with caplog.at_level(logging.WARNING):
        ada.run_batch(between=sleep_through_the_lease)
        ada.commit()
        assert ("lost", min(lost)) in world.events
        rows = {k: world.table.row(k) for k in lost}
        ada.step()
    assert "any more" in caplog.text
    assert {k: world.table.row(k).version for k in lost} == {k: v.version for k, v in rows.items()}
    world.run(ada, grace, until=lambda: "ada" in world.table.owners().values())
    world.put(20)
    world.run(ada, grace, until=world.all_delivered)
    ada.leave()
    grace.leave()
    world.checker.verdict().require()


@pytest.mark.req("K-11")
def test_after_a_kill_the_other_goes_on_from_the_checkpoint(world: World) -> None:
    world.put(30)
    ada, grace = world.app("ada"), world.app("grace")
    world.run(ada, grace, until=world.all_delivered)
    world.run(ada, grace, steps=30)
    world.put(30)
    ada.step()  # delivered and committed by Spark, but not acknowledged: then kill -9
    world.run(grace, steps=int(LEASE_SECONDS) * 3, until=world.all_delivered)
    finish(world, grace)


@pytest.mark.case("W-18")
def test_leaving_while_the_table_gives_no_answer_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(10)
    ada = world.app("ada")
    world.run(ada, until=world.all_delivered)

    def no_answer(*_: object) -> None:
        raise TableUnavailable("nobody there")

    with monkeypatch.context() as broken:
        broken.setattr(world.table, "swap_row", no_answer)
        broken.setattr(world.table, "read_rows", no_answer)
        assert not ada.owner.release()
        assert not ada.owner.release()
    assert set(world.table.owners().values()) == {"ada"}
    world.pass_seconds(1.1)
    assert ada.owner.release()
    assert not world.table.owners()


# --- quiet shards, gaps -----------------------------------------------------------------------


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


# --- one source of an app under one driver -----------------------------------------------------


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


def _life(events: list[Event], shard_id: str) -> list[str]:
    """Return what happened in a shard, each thing once, in the order of its first time."""
    return list(dict.fromkeys(what for what, where in events if where == shard_id))
