"""Shards planned under leases: a shard's life, hand-overs and losses.

Real planners and coordinators; the checker judges every delivery, and every checkpoint that
reached the table.
"""

from __future__ import annotations

import logging

import pytest

from shardline.leases.port import TableUnavailable
from tests.unit.spark.driver.leased_world import (
    FIRST,
    LEASE_SECONDS,
    SECOND,
    Event,
    World,
    finish,
)


@pytest.fixture
def world() -> World:
    return World()


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


def _life(events: list[Event], shard_id: str) -> list[str]:
    """Return what happened in a shard, each thing once, in the order of its first time."""
    return list(dict.fromkeys(what for what, where in events if where == shard_id))
