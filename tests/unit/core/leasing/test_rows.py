"""What happens to rows: checkpoints, ends, rows that are missing, and rows nobody needs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardline.core.leasing.events import DecisionDue
from shardline.core.leasing.instructions import Save
from shardline.core.leasing.rows import advanced, finished, taken
from shardline.core.positions import SHARD_END, TRIM_HORIZON, AtTime
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import GapError
from shardline.services.steps import run
from tests.unit.leases.stage import BIRTH, SPACE, Notes, Stage, after, whole_ring


@pytest.mark.req("K-09", "K-45")
def test_checkpoints_are_written_now_and_then_and_never_go_back() -> None:
    stage = Stage(shards=1, checkpoint_seconds=12.0)
    worker = stage.worker("a")
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    for number in (3, 8, 5):
        worker.checkpoint("s0", epoch, after(number))
        stage.let_pass(1)
    assert stage.rows()["s0"].checkpoint == TRIM_HORIZON
    assert worker.held()["s0"].checkpoint == after(8)
    stage.let_pass(12)
    row = stage.rows()["s0"]
    assert row.checkpoint == after(8)
    assert row.lease_count == 2, "one take, one checkpoint"


def test_checkpoints_of_shards_that_were_taken_together_are_not_written_together() -> None:
    stage = Stage(shards=12, checkpoint_seconds=12.0)
    worker = stage.worker("a")
    stage.let_pass(1)
    together = []
    for second in range(15):
        for shard_id, lease in worker.held().items():
            worker.checkpoint(shard_id, lease.epoch, after(second))
        before = stage.rows()
        stage.let_pass(1)
        together.append(sum(row != before[i] for i, row in stage.rows().items()))
    assert sum(together) >= 12
    assert max(together) <= 4


@pytest.mark.req("K-47", "K-48", "K-49", "K-50", "K-52", "K-53", "K-23", "K-24")
@pytest.mark.case("L-06")
def test_children_start_when_the_end_of_their_parent_is_written_down() -> None:
    stage, notes = Stage(shards=1), Notes()
    worker = stage.worker("a", work=notes)
    stage.let_pass(1)
    stage.listing.split("s0", "c1", "c2")
    stage.let_pass(15)
    assert set(worker.held()) == {"s0"}, "closed is not finished"
    epoch = worker.held()["s0"].epoch
    worker.complete("s0", epoch)
    assert "s0" not in worker.held()
    stage.let_pass(3)
    assert stage.rows()["s0"].completed
    assert set(worker.held()) == {"c1", "c2"}
    assert ("stop", "s0") in notes.words


@pytest.mark.case("L-09")
def test_completed_is_terminal() -> None:
    stage = Stage(shards=1)
    stage.worker("a")
    stage.let_pass(1)
    end = finished(stage.rows()["s0"])
    assert (end.completed, end.lease_owner, end.checkpoint) == (True, None, SHARD_END)
    assert advanced(end, after(3)) is end
    assert finished(end) is end
    with pytest.raises(ValueError, match="s0 is completed: nobody can take it"):
        taken(end, "b/1")


@pytest.mark.case("L-13")
def test_children_get_rows_from_whoever_lives_when_the_parents_owner_died() -> None:
    stage = Stage(shards=1)
    ender = stage.worker("a")
    stage.let_pass(1)
    other = stage.worker("b")
    stage.let_pass(3)
    stage.listing.split("s0", "c1", "c2")
    ender.complete("s0", ender.held()["s0"].epoch)
    stage.now += 1
    run(ender._listings.round())
    (end,) = (i for i in ender._member.handle(DecisionDue(BIRTH)) if isinstance(i, Save))
    run(ender._member.write(end))  # and it dies right after this write
    stage.lose(ender)
    assert stage.rows().keys() == {"s0"}
    stage.let_pass(40)
    assert set(other.held()) == {"c1", "c2"}


@pytest.mark.case("W-14")
def test_a_row_deleted_by_hand_is_made_again_where_its_holder_was_under_a_higher_epoch() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    before = worker.held()["s0"].epoch
    worker.checkpoint("s0", before, after(9))
    stage.let_pass(20)
    del stage.table._rows[SPACE]["s0"]
    stage.table._ids.clear()
    stage.let_pass(6)
    lease = worker.held()["s0"]
    assert lease.checkpoint == after(9)
    assert lease.epoch > before


@pytest.mark.case("W-14")
def test_a_worker_that_was_away_does_not_make_a_row_again_from_what_it_knew() -> None:
    stage = Stage(shards=1, checkpoint_seconds=1.0)
    away = stage.worker("a")
    stage.let_pass(1)
    stage.lose(away)
    heir = stage.worker("b")
    stage.let_pass(20)
    heir.checkpoint("s0", heir.held()["s0"].epoch, after(7))
    stage.let_pass(2)
    stage.table.delete_row(stage.rows()["s0"])
    away.tick()
    away.tick()
    assert "s0" not in stage.rows(), "it is not its turn: somebody else may have come further"
    stage.workers.append(away)
    stage.let_pass(4)
    assert stage.rows()["s0"].checkpoint == after(7)


@pytest.mark.case("L-11", "L-04")
def test_a_finished_parent_whose_row_is_gone_is_not_read_again_under_its_children() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    stage.listing.split("s0", "c1")
    worker.complete("s0", worker.held()["s0"].epoch)
    stage.let_pass(15)
    stage.lose(worker)
    worker.leave()
    del stage.table._rows[SPACE]["s0"]
    stage.table._ids.clear()
    heir = stage.worker("b")  # it remembers nothing
    stage.let_pass(15)
    assert set(heir.held()) == {"c1"}


@pytest.mark.case("L-10")
def test_finished_rows_go_only_a_retention_period_after_nothing_descends_from_them() -> None:
    stage = Stage(shards=1, retention_seconds=500.0)
    worker = stage.worker("a")
    stage.let_pass(1)
    stage.listing.split("s0", "c1")
    worker.complete("s0", worker.held()["s0"].epoch)
    stage.let_pass(12)
    stage.listing.drop("s0")
    stage.let_pass(1000)
    assert "s0" in stage.rows(), "c1 still names it"
    stage.listing.split("c1", "d1")
    worker.complete("c1", worker.held()["c1"].epoch)
    stage.let_pass(12)
    stage.listing.drop("c1")
    stage.let_pass(400)
    assert "s0" in stage.rows()
    stage.let_pass(200)
    assert stage.rows().keys() == {"c1", "d1"}


@pytest.mark.case("L-18")
def test_a_stream_made_again_under_its_name_begins_anew() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    old = worker.held()["s0"].epoch
    worker.checkpoint("s0", old, after(99))
    stage.let_pass(20)
    stage.listing.created_at = BIRTH + timedelta(days=1)
    stage.let_pass(75)
    row, lease = stage.rows()["s0"], worker.held()["s0"]
    assert row.stream_created_at == stage.listing.created_at
    assert lease.checkpoint == TRIM_HORIZON
    assert lease.epoch > old


@pytest.mark.req("K-21")
@pytest.mark.case("X-11")
def test_an_unfinished_shard_that_vanished_is_an_error_until_somebody_decides() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    stage.listing.split("s0", "c1")
    stage.let_pass(12)
    stage.listing.drop("s0")
    stage.let_pass(60)
    assert worker.held().keys() == {"s0"}, "a shard younger than the retention is not gone"
    stage.now += 24 * 3600
    with pytest.raises(GapError, match=r"s0 of orders vanished .* set failOnDataLoss to false"):
        stage.let_pass(15)
    stage.lose(worker)
    bold = stage.worker("b", goes_on_after_gaps=True)
    stage.let_pass(30)
    assert set(bold.held()) == {"c1"}
    assert "s0 vanished" in stage.rows()["s0"].gap


@pytest.mark.case("L-14")
def test_a_hole_in_the_listing_is_said_and_filled(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    whole = whole_ring(4)
    stage.listing.shards = whole[:2]
    worker = stage.worker("a")
    stage.let_pass(4)
    assert "the listing of orders lacks" in caplog.text
    stage.listing.shards = whole
    stage.let_pass(5)
    assert len(worker.held()) == 4


@pytest.mark.req("K-19", "K-16")
def test_nothing_starts_before_the_stream_is_active(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(shards=1)
    stage.listing.active = False
    worker = stage.worker("a")
    stage.let_pass(3)
    assert not worker.held()
    assert "orders is not active yet" in caplog.text
    stage.listing.active = True
    stage.let_pass(2)
    assert worker.held()


@pytest.mark.req("K-10", "K-38")
def test_the_start_is_resolved_once_and_later_shards_begin_at_their_beginning() -> None:
    stage = Stage(shards=1)
    then = AtTime(BIRTH)
    stage.worker("a", start=then)
    stage.let_pass(5)
    assert stage.rows()["s0"].checkpoint == then
    stage.listing.split("s0", "child")
    stage.listing.shards += (Shard("unlisted at first", first=SequenceNumber("5")),)
    stage.let_pass(15)
    assert stage.rows()["child"].checkpoint == TRIM_HORIZON
    assert stage.rows()["unlisted at first"].checkpoint == then
    stage.worker("b", start=TRIM_HORIZON)
    stage.let_pass(5)
    header = stage.table.read_header(*SPACE)
    assert header is not None
    assert (header.settled, header.start) == (True, then)
