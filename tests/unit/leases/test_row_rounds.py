"""How a worker joins an app, where it begins, and what it does when the table is away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.gaps import may_have_expired
from shardline.core.leasing.rows import EPOCHS_PER_MOVE, Header, LeaseRow
from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, AtTime
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import ConfigurationError, LeaseLost
from shardline.leases.port import TableUnavailable
from shardline.services.steps import Pause
from tests.unit.leases.stage import BIRTH, SPACE, Notes, Stage, after

if TYPE_CHECKING:
    from shardline.leases.coordinator import Coordinator


@pytest.mark.case("X-10")
def test_a_worker_that_creates_an_app_says_so_and_from_where_it_starts() -> None:
    stage = Stage(shards=1)
    first = stage.worker("a", start=LATEST)
    assert str(first.origin) == "None", "it is not known before the table was read"
    stage.let_pass(1)
    assert str(first.origin) == f"a lease table without this app: starting at {stage.today()}"
    second = stage.worker("b", start=LATEST)
    stage.let_pass(1)
    assert str(second.origin) == "going on at the checkpoints in the lease table"


@pytest.mark.case("X-10")
def test_a_worker_that_expects_its_app_refuses_a_table_without_it() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a", expect_app=True)
    worker.tick()
    with pytest.raises(ConfigurationError, match="'app' was expected on orders, but memory holds"):
        worker.held()
    assert stage.table.read_header(*SPACE) is None, "nothing was written"
    stage.lose(worker)
    stage.worker("b")
    stage.let_pass(1)
    late = stage.worker("c", expect_app=True)
    stage.let_pass(1)
    assert late.error() is None


@pytest.mark.case("X-17")
@pytest.mark.req("K-27", "K-32")
def test_a_table_that_is_away_for_three_leases_is_waited_for_and_work_goes_on_fenced() -> None:
    stage, notes = Stage(shards=1), Notes()
    worker = stage.worker("a", work=notes)
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.checkpoint("s0", epoch, after(7))
    with stage.table_away():
        stage.let_pass(3 * stage.times.lease_seconds)
        assert not worker.held()
        assert notes.words[-1][:2] == ("stop", "s0")
        with pytest.raises(LeaseLost):
            worker.checkpoint("s0", epoch, after(8))
    assert worker.error() is None
    stage.let_pass(2)
    lease = worker.held()["s0"]
    assert lease.epoch == epoch + 1
    assert lease.checkpoint == after(7), "what was acknowledged in time is not delivered again"
    assert notes.words[-1] == ("start", "s0", epoch + 1, after(7))


def test_after_a_lapse_the_same_epoch_is_never_started_again() -> None:
    stage, notes = Stage(shards=3), Notes()
    stage.worker("a", work=notes)
    for _ in range(4):
        stage.let_pass(3)
        with stage.table_away():
            stage.let_pass(2 * stage.times.lease_seconds)
    stage.let_pass(3)
    started = [word[1:3] for word in notes.words if word[0] == "start"]
    assert len(started) == 3 * 5
    assert len(set(started)) == len(started)


@pytest.mark.case("X-20")
def test_latest_makes_no_rows_for_closed_shards_and_their_children_are_read() -> None:
    stage = Stage()
    stage.listing.shards = (
        Shard("old", last=SequenceNumber("5")),
        Shard("child", ("old",)),
        Shard("other"),
    )
    worker = stage.worker("a", start=LATEST)
    stage.let_pass(15)
    assert stage.rows().keys() == {"child", "other"}
    assert worker.held().keys() == {"child", "other"}
    stage.listing.drop("old")  # it expires: that is nobody's loss
    stage.let_pass(60)
    assert worker.error() is None
    assert worker.held().keys() == {"child", "other"}


@pytest.mark.case("X-35")
@pytest.mark.req("K-08")
def test_latest_is_resolved_without_reading_any_record() -> None:
    stage = Stage(shards=1)  # its service cannot open or read
    then = stage.today() + timedelta(seconds=1)
    stage.worker("a", start=LATEST)
    stage.let_pass(2)
    header = stage.table.read_header(*SPACE)
    assert header is not None
    assert (header.start, header.latest) == (AtTime(then), True)
    assert stage.rows()["s0"].checkpoint == AtTime(then)


@pytest.mark.case("X-08")
def test_latest_on_a_service_with_coarse_times_begins_with_the_whole_minute() -> None:
    stage = Stage(shards=1)
    stage.listing.finds_times = False
    stage.now = 100.0  # 00:01:40
    stage.worker("a", start=LATEST)
    stage.let_pass(2)
    assert stage.rows()["s0"].checkpoint == AtTime(BIRTH + timedelta(seconds=60))


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.case("X-08")
def test_the_start_of_a_header_that_was_deleted_is_as_early_as_what_has_not_begun(
    begun: bool,
) -> None:
    """A row that is deleted too is made again by the header: it must not skip what was unread."""
    stage, then = Stage(shards=2), BIRTH + timedelta(seconds=60)
    for shard_id, start in (("s0", then), ("s1", then + timedelta(seconds=20))):
        checkpoint = after(5) if begun else AtTime(start)
        stage.table.swap_row(LeaseRow(*SPACE, shard_id, BIRTH, checkpoint=checkpoint), None)
    stage.worker("a", start=LATEST)
    stage.let_pass(2)
    header = stage.table.read_header(*SPACE)
    assert header is not None
    assert (header.start, header.latest) == (AtTime(BIRTH if begun else then), True)


@pytest.mark.case("W-14")
@pytest.mark.parametrize("joined_before", [True, False])
def test_a_header_that_was_deleted_begins_above_every_epoch_that_a_row_can_have_had(
    joined_before: bool,
) -> None:
    """Also where the worker that makes it again joined before there were rows."""
    stage = Stage(shards=1)
    stage.listing.active = False  # no header is created yet
    if joined_before:
        stage.worker("a")
        stage.let_pass(4)
    row = LeaseRow(*SPACE, "s0", BIRTH - timedelta(days=1), epoch=3 * EPOCHS_PER_MOVE)
    stage.table.swap_row(row, None)  # of a stream of before, as its header was
    stage.listing.active = True
    if not joined_before:
        stage.worker("a")
    stage.let_pass(70)
    assert stage.rows()["s0"].epoch > EPOCHS_PER_MOVE**2


@pytest.mark.req("O-22")
def test_a_shard_that_closes_after_latest_was_resolved_is_read_before_its_children() -> None:
    stage = Stage(shards=1)
    stage.listing.shards += (Shard("old", last=SequenceNumber("5")),)
    worker = stage.worker("a", start=LATEST)
    while stage.listing.listings < 1:
        worker.tick()
    stage.listing.split("s0", "c1", "c2")
    resolved = stage.today()
    stage.let_pass(5)
    rows = stage.rows()
    assert rows.keys() == {"s0", "c1", "c2"}
    assert rows["s0"].checkpoint == AtTime(resolved)
    assert rows["c1"].checkpoint == TRIM_HORIZON
    assert worker.held().keys() == {"s0"}


@pytest.mark.req("O-22")
def test_a_worker_that_did_not_resolve_latest_leaves_closed_shards_to_the_one_that_did() -> None:
    stage, start = Stage(), AtTime(BIRTH)
    stage.table.create_header(Header(*SPACE, BIRTH, start, latest=True))
    stage.listing.shards = (Shard("s0"), Shard("c", ("p",)), Shard("p", last=SequenceNumber("5")))
    other = stage.worker("a", start=LATEST)
    stage.let_pass(15)
    assert stage.rows().keys() == {"s0"}, "p may have been closed before the start"
    assert other.held().keys() == {"s0"}
    stage.let_pass(10)  # the one that resolved it died: what p holds after the start is read
    assert stage.rows()["p"].checkpoint == start
    assert other.held().keys() == {"s0", "p"}


def test_children_born_later_begin_at_their_beginning_after_a_start_at_latest() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a", start=LATEST)
    stage.let_pass(5)
    stage.listing.split("s0", "c1", "c2")
    worker.complete("s0", worker.held()["s0"].epoch)
    stage.let_pass(3)
    assert worker.held().keys() == {"c1", "c2"}
    assert {stage.rows()[i].checkpoint for i in ("c1", "c2")} == {TRIM_HORIZON}


@pytest.mark.case("X-03")
def test_a_parent_that_the_first_listing_lacks_is_read_from_the_start_on() -> None:
    stage = Stage()
    parent, child = Shard("parent", last=SequenceNumber("9")), Shard("child", ("parent",))
    stage.listing.shards = (parent, child)
    stage.listing.list_shards = lambda: (child,)  # type: ignore[method-assign]
    then = AtTime(BIRTH)
    worker = stage.worker("a", start=then)
    stage.let_pass(15)
    assert not worker.held(), "its parent is not drained: nothing said so"
    del stage.listing.list_shards
    stage.let_pass(15)
    assert worker.held().keys() == {"parent"}
    assert worker.held()["parent"].checkpoint == then
    worker.complete("parent", worker.held()["parent"].epoch)
    stage.let_pass(3)
    assert worker.held().keys() == {"child"}


def test_a_take_outranks_the_last_epoch_of_every_parent() -> None:
    stage = Stage()
    stage.listing.shards = (
        Shard("p1", last=SequenceNumber("5")),
        Shard("p2", last=SequenceNumber("5")),
        Shard("child", ("p1", "p2")),
    )
    parents = [
        LeaseRow(*SPACE, i, BIRTH, epoch=epoch, completed=True, checkpoint=SHARD_END)
        for i, epoch in (("p1", 7_000_003), ("p2", 9_000_005))
    ]
    child = LeaseRow(*SPACE, "child", BIRTH, ("p1", "p2"), epoch=2_000_000)
    for row in (*parents, child):
        stage.table.swap_row(row, None)
    stage.table.create_header(Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True, moves=9))
    worker = stage.worker("a")
    stage.let_pass(3)
    assert worker.held()["child"].epoch == 9_000_006


@pytest.mark.case("X-01", "X-15")
def test_a_child_that_waits_carries_the_as_of_of_its_parent_as_it_moves() -> None:
    stage = Stage(shards=1, checkpoint_seconds=1.0)
    worker = stage.worker("a")
    stage.let_pass(1)
    first = stage.rows()["s0"].as_of
    assert first is not None, "known from the moment that the shard is"
    assert first == BIRTH, "nothing arrived before there was a stream"
    stage.listing.split("s0", "child")
    stage.let_pass(12)
    waiting = stage.rows()["child"].as_of
    assert waiting is not None
    assert waiting >= first
    epoch = worker.held()["s0"].epoch
    then = stage.today()
    for hours in range(1, 4):
        then = stage.today() + timedelta(hours=hours)
        worker.checkpoint("s0", epoch, after(hours), then)
        stage.let_pass(3)
    worker.complete("s0", epoch)
    stage.let_pass(3)
    assert worker.held()["child"].as_of == then


@pytest.mark.parametrize("times", [1, 4])
def test_work_that_never_gets_past_a_checkpoint_is_halted_and_shown(times: int) -> None:
    stage = Stage(shards=1, most_starts=times)
    for attempt in range(times):
        victim = stage.worker(f"w{attempt}")
        stage.let_pass(2 * stage.times.lease_seconds)
        assert victim.held().keys() == {"s0"}
        stage.lose(victim)  # felled by a record that kills its process
    last = stage.worker("last")
    stage.let_pass(3 * stage.times.lease_seconds)
    assert not last.held()
    row = stage.rows()["s0"]
    assert row.lease_owner is None
    assert f"began {times} times at TrimHorizon()" in row.halted
    assert last.status().startswith("nothing to do")


def test_an_acknowledgement_ends_the_count_of_starts() -> None:
    stage = Stage(shards=1, most_starts=2)
    for attempt in range(4):
        worker = stage.worker(f"w{attempt}")
        stage.let_pass(2 * stage.times.lease_seconds)
        worker.checkpoint("s0", worker.held()["s0"].epoch, after(attempt + 1))
        stage.let_pass(stage.times.checkpoint_seconds + 1)
        stage.lose(worker)
    assert not stage.rows()["s0"].halted


def test_a_polite_release_ends_the_count_of_starts() -> None:
    stage = Stage(shards=1, most_starts=2)
    for attempt in range(4):
        worker = stage.worker(f"w{attempt}")
        stage.let_pass(5)
        assert worker.held()
        stage.lose(worker)
        worker.leave()
    assert not stage.rows()["s0"].halted


def test_an_unanswered_write_is_read_before_anything_else_is_written() -> None:
    stage = Stage(shards=1, checkpoint_seconds=1.0)
    worker = stage.worker("a")
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.checkpoint("s0", epoch, after(5))
    stage.now += 2
    swap_row = stage.table.swap_row

    def written_but_not_answered(new: LeaseRow, expected: LeaseRow | None) -> None:
        swap_row(new, expected)
        raise TableUnavailable("no answer")

    stage.table.swap_row = written_but_not_answered  # type: ignore[method-assign]
    worker.tick()
    stage.table.swap_row = swap_row  # type: ignore[method-assign]
    assert worker.held()["s0"].epoch == epoch, "a lease is not lost by an unanswered checkpoint"
    worker.checkpoint("s0", epoch, after(6))
    stage.let_pass(5)
    row = stage.rows()["s0"]
    assert (row.checkpoint, row.epoch) == (after(6), epoch)


def test_a_row_of_the_first_layout_goes_on_where_it_was() -> None:
    stage = Stage(shards=1)
    old = LeaseRow(*SPACE, "s0", BIRTH, lease_owner="task-0/old", epoch=4, checkpoint=after(9))
    stage.table.swap_row(old, None)
    stage.table.create_header(Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True))
    worker = stage.worker("task-0")
    stage.let_pass(stage.times.lease_seconds - 1)
    assert not worker.held(), "a namesake waits out the lease like anybody else"
    stage.let_pass(4)
    lease = worker.held()["s0"]
    assert (lease.epoch, lease.checkpoint) == (5, after(9))
    assert lease.as_of is not None


def test_a_halted_row_is_taken_again_when_the_mark_is_cleared() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.halt("s0", epoch, "record 7 fails")
    stage.let_pass(30)
    row = stage.rows()["s0"]
    assert (row.halted, row.lease_owner) == ("record 7 fails", None)
    assert not worker.held()
    freed = replace(row, halted="", lease_count=row.lease_count + 1)
    stage.table.swap_row(freed, row)
    stage.let_pass(10)
    assert worker.held()["s0"].epoch == epoch + 1


@pytest.mark.case("L-18")
def test_what_expired_unread_in_a_stream_that_was_made_again_is_a_gap() -> None:
    stage = Stage(shards=1)
    stage.lose(_joined(stage, "a"))
    stage.listing.created_at = stage.today() + timedelta(minutes=1)
    stage.now += timedelta(days=3).total_seconds()
    worker = _joined(stage, "b")
    stage.let_pass(2 * stage.times.lease_seconds)
    row = stage.rows()["s0"]
    assert (row.stream_created_at, row.checkpoint) == (stage.listing.created_at, TRIM_HORIZON)
    as_of = worker.held()["s0"].as_of
    assert as_of is not None
    assert may_have_expired(as_of, now=stage.today(), retention=timedelta(days=1))


def _joined(stage: Stage, name: str) -> Coordinator:
    worker = stage.worker(name)
    stage.let_pass(1)
    return worker


@pytest.mark.parametrize("joins_later", range(3))
def test_the_shards_of_a_dead_worker_are_taken_a_round_after_its_lease_time(
    joins_later: int,
) -> None:
    stage = Stage(shards=2)
    dying = stage.worker("a")
    stage.let_pass(joins_later)
    heir = stage.worker("b")
    stage.let_pass(30)
    assert stage.counts() == [1, 1]
    stage.lose(dying)
    last_renewed_at = dying.state.heartbeat.renewed_at
    while len(heir.held()) < 2:
        stage.let_pass(1)
    late_seconds = stage.now - last_renewed_at - stage.times.lease_seconds
    assert 0 <= late_seconds <= stage.times.tick_seconds


def test_a_worker_that_joined_and_holds_nothing_looks_for_rows_more_often() -> None:
    stage = Stage(shards=1)
    owner, other = stage.worker("a"), stage.worker("b")
    stage.let_pass(1)
    assert (len(owner.held()), len(other.held())) == (1, 0)
    assert _rest_seconds(other) < _rest_seconds(owner) / 4
    stage.let_pass(stage.times.renew_seconds + 1)
    assert _rest_seconds(other) == _rest_seconds(owner)


def _rest_seconds(worker: Coordinator) -> float:
    """Return the pause after the next round of a worker's row thread."""
    for step in (steps := worker.table_steps()):
        while not isinstance(step, Pause):
            step = steps.send(step())
        return step.seconds
    raise AssertionError("it does not pause")
