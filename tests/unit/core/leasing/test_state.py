"""Who gets which shard, and what becomes of it when workers come, go and die."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardline.core.leasing import events as e
from shardline.core.leasing.instructions import ReadHeartbeats, ReadRows, Take
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow, taken
from shardline.core.leasing.state import LeaseState
from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import TRIM_HORIZON, AtTime
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import LeaseLost
from shardline.leases.port import TableUnavailable
from shardline.services.steps import run
from tests.unit.leases.stage import BIRTH, SPACE, Notes, Stage, after


@pytest.mark.req("K-05", "K-06", "K-28", "K-29")
def test_one_worker_makes_and_takes_every_row() -> None:
    stage, notes = Stage(shards=3), Notes()
    worker = stage.worker("a", work=notes)
    stage.let_pass(1)
    assert set(worker.held()) == {"s0", "s1", "s2"}
    assert sorted(word[:2] for word in notes.words) == [("start", f"s{i}") for i in range(3)]
    assert {row.lease_owner for row in stage.rows().values()} == {worker.owner}


@pytest.mark.case("W-17")
def test_a_newcomer_gets_one_of_two_shards() -> None:
    stage = Stage(shards=2)
    stage.worker("a")
    stage.let_pass(3)
    stage.worker("b")
    stage.let_pass(12)
    assert stage.counts() == [1, 1]


@pytest.mark.parametrize(("shards", "workers"), [(7, 3), (10, 4), (1, 3), (12, 5)])
def test_workers_hold_the_same_number_or_one_more(shards: int, workers: int) -> None:
    stage = Stage(shards=shards)
    for i in range(workers):
        stage.worker(f"w{i}")
        stage.let_pass(2)
    stage.let_pass(60)
    assert sum(stage.counts()) == shards
    assert stage.counts()[-1] - stage.counts()[0] <= 1


@pytest.mark.req("K-11")
@pytest.mark.case("W-07", "W-09")
def test_a_dead_workers_leases_are_taken_after_a_lease_time_seen_on_ones_own_clock() -> None:
    stage = Stage(shards=2)
    dead = stage.worker("a")
    other = stage.worker("b")
    stage.let_pass(12)
    stage.lose(dead)
    stage.let_pass(8)
    assert len(other.held()) == 1
    stage.let_pass(5)
    assert len(other.held()) == 2


@pytest.mark.req("K-11")
@pytest.mark.case("W-09")
@pytest.mark.parametrize("phase_seconds", [0, 1, 2, 3])
def test_a_dead_worker_is_missed_within_one_and_a_half_lease_times(phase_seconds: int) -> None:
    stage = Stage(shards=2, lease_seconds=10.0)
    dead = stage.worker("a")
    other = stage.worker("b")
    stage.let_pass(20 + phase_seconds)
    stage.lose(dead)
    stage.let_pass(1.5 * stage.times.lease_seconds)
    assert len(other.held()) == 2


@pytest.mark.case("W-09")
def test_a_tick_comes_at_the_moment_when_somebody_has_stood_still_for_a_lease_time() -> None:
    stage = Stage(shards=2, lease_seconds=10.0)
    dead = stage.worker("a")
    other = stage.worker("b")
    stage.let_pass(12)
    stage.lose(dead)
    stage.let_pass(4.4)
    while len(other.held()) < 2:
        stage.now += other._rows.rest_seconds()
        other.tick()
    last_seen_at = other.state.peers._observed[dead.owner].since
    assert stage.now == pytest.approx(last_seen_at + stage.times.lease_seconds)


def test_who_has_just_come_takes_only_a_few_until_all_have_shown_up() -> None:
    stage = Stage(shards=90)
    for name in "abc":
        stage.worker(name)
    stage.let_pass(1)
    assert stage.counts()[-1] <= 20
    epochs = {row.epoch % 10**6 for row in stage.rows().values()}
    stage.let_pass(15)
    assert stage.counts() == [30, 30, 30]
    assert epochs <= {0, 1}
    assert {row.epoch % 10**6 for row in stage.rows().values()} == {1}, "nothing was handed over"


@pytest.mark.req("K-30")
def test_a_free_lease_is_read_before_it_is_taken() -> None:
    row = LeaseRow(*SPACE, "s0", BIRTH)
    state = LeaseState(*SPACE, "a/1")
    state.handle(e.HeaderRead(Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True)), 0.0)
    state.handle(e.ShardsListed((Shard("s0"),), 0.0), 0.0)
    state.handle(e.RowsScanned((row,)), 0.0)
    (renewal,) = state.handle(e.RenewalDue(), 0.0)
    state.handle(e.WriteDone(renewal, 0.0), 0.0)
    state.handle(e.RoundBegun(), 1.0)  # what was read before may be out of date: somebody took it
    assert state.handle(e.DecisionDue(BIRTH), 1.0) == [ReadRows(("s0",))]
    state.handle(e.RowsRead(("s0",), {"s0": row}), 1.0)
    assert state.handle(e.DecisionDue(BIRTH), 1.0) == [Take(taken(row, "a/1"), row)]


@pytest.mark.case("R-06")
def test_a_worker_that_lapsed_does_not_make_its_deleted_row_again_at_once() -> None:
    """It read the row as its own after that; another took it meanwhile, and got further."""
    row, stage = LeaseRow(*SPACE, "s0", BIRTH, epoch=1_000_000), Stage(shards=1)
    stage.table.create_header(Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True))
    stage.table.swap_row(row, None)
    worker = stage.worker("a")
    stage.let_pass(2)
    assert worker.held().keys() == {"s0"}
    other, mine = stage.worker("b"), stage.rows()["s0"]
    other.tick()
    stage.lose(other)
    stage.now += stage.times.lease_seconds  # it was away
    worker.state.handle(e.TimePassed(), stage.now)
    worker.state.handle(e.RowsRead(("s0",), {"s0": mine}), stage.now)
    stage.table.delete_row(mine)
    stage.let_pass(stage.times.lease_seconds - 1)
    assert not stage.rows()
    stage.let_pass(3)
    assert stage.rows().keys() == {"s0"}


@pytest.mark.parametrize("moved", [False, True])
def test_a_dead_owner_is_read_again_after_its_row_and_before_its_lease_is_taken(
    moved: bool,
) -> None:
    row = taken(LeaseRow(*SPACE, "s0", BIRTH), "dead/1")
    beat = Heartbeat(*SPACE, "dead/1", count=5)
    state = LeaseState(*SPACE, "a/1", times=LeaseTimes(lease_seconds=9.0))
    state.handle(e.HeaderRead(Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True)), 0.0)
    state.handle(e.ShardsListed((Shard("s0"),), 0.0), 0.0)
    state.handle(e.HeartbeatsRead((beat,)), 0.0)
    (renewal,) = state.handle(e.RenewalDue(), 9.0)
    state.handle(e.WriteDone(renewal, 9.0), 9.0)
    state.handle(e.HeartbeatRead("dead/1", beat), 9.0)
    again = taken(row, "dead/1")  # it renewed, and took its lease anew
    state.handle(e.RowsRead(("s0",), {"s0": again if moved else row}), 9.1)
    assert state.handle(e.DecisionDue(BIRTH), 9.1) == [ReadHeartbeats(("dead/1",))]
    now = replace(beat, count=6) if moved else beat
    state.handle(e.HeartbeatRead("dead/1", now), 9.1)
    takes = [Take] if not moved else []
    assert [type(i) for i in state.handle(e.DecisionDue(BIRTH), 9.1)] == takes


@pytest.mark.case("L-04")
@pytest.mark.parametrize("skipped", [True, False])
def test_after_a_start_at_latest_a_parent_is_skipped_only_if_it_has_no_row(skipped: bool) -> None:
    start, last = AtTime(BIRTH), SequenceNumber("9")
    parent, child = Shard("parent", last=last), Shard("child", ("parent",))
    state = LeaseState(*SPACE, "a/1")
    header = Header(*SPACE, BIRTH, start, settled=True, latest=True)
    state.handle(e.HeaderRead(header), 0.0)
    state.handle(e.ShardsListed((parent, child), 0.0), 0.0)
    state.handle(e.RowsRead(("parent",), {}), 0.0)  # before there was a row of the child
    row = LeaseRow(*SPACE, "child", BIRTH, ("parent",), checkpoint=start)
    state.handle(e.RowsScanned((row,)), 0.0)
    assert state.ledger.leasable == set(), "the read of the parent's row may lag"
    assert "parent" in state.wanted_rows()
    found = {} if skipped else {"parent": LeaseRow(*SPACE, "parent", BIRTH)}
    state.handle(e.RowsRead(("parent",), found), 0.0)
    assert state.ledger.leasable == ({"child"} if skipped else {"parent"})


@pytest.mark.case("L-04")
def test_the_parent_of_a_row_at_the_beginning_was_not_skipped_and_its_row_is_made_again() -> None:
    """Rows at the beginning are made after those of the parents: somebody deleted that one."""
    start, last = AtTime(BIRTH), SequenceNumber("9")
    state = LeaseState(*SPACE, "a/1")
    header = Header(*SPACE, BIRTH, start, settled=True, latest=True)
    state.handle(e.HeaderRead(header), 0.0)
    listed = (Shard("parent", last=last), Shard("child", ("parent",)))
    state.handle(e.ShardsListed(listed, 0.0), 0.0)
    state.handle(e.RowsScanned((LeaseRow(*SPACE, "child", BIRTH, ("parent",)),)), 0.0)
    state.handle(e.RowsRead(("parent",), {}), 0.0)
    assert state.ledger.leasable == set()
    assert state.ledger.missing() == ["parent"]
    assert state.ledger.beginnings(header, ["parent"]) == {"parent": start}


@pytest.mark.req("K-07")
@pytest.mark.case("W-02")
def test_a_worker_that_lost_a_lease_can_write_no_more() -> None:
    stage = Stage(shards=1)
    zombie = stage.worker("a")
    stage.let_pass(1)
    epoch = zombie.held()["s0"].epoch
    zombie.checkpoint("s0", epoch, after(5))
    stage.lose(zombie)
    heir = stage.worker("b")
    stage.let_pass(20)
    zombie.tick()
    zombie.tick()
    row = stage.rows()["s0"]
    assert (row.lease_owner, row.epoch) == (heir.owner, epoch + 1)
    assert row.checkpoint != after(5)
    with pytest.raises(LeaseLost, match=r"s0 is not a/.*drop its batch"):
        zombie.checkpoint("s0", epoch, after(6))


@pytest.mark.req("K-32")
@pytest.mark.case("W-01", "W-06")
def test_a_worker_that_cannot_renew_stops_before_its_leases_can_be_taken() -> None:
    stage, notes = Stage(shards=1), Notes()
    worker = stage.worker("a", work=notes)
    stage.let_pass(0)
    stage.table.swap_heartbeat = _out_of_reach  # type: ignore[method-assign, assignment]
    stage.let_pass(stage.times.stop_seconds - 0.1)
    epoch = worker.held()["s0"].epoch
    assert worker.holds("s0", epoch)
    stage.let_pass(0.2)
    assert not worker.held()
    assert not worker.holds("s0", epoch)
    stage.let_pass(0)
    assert notes.words[-1] == ("stop", "s0")
    assert stage.times.stop_seconds < stage.times.lease_seconds
    del stage.table.swap_heartbeat
    stage.let_pass(1)
    assert worker.held()["s0"].epoch > epoch, "nobody took it: it is taken anew"
    assert notes.words[-1][:2] == ("start", "s0")


@pytest.mark.case("W-06")
def test_a_worker_that_was_away_holds_nothing_before_it_took_its_leases_anew() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    stage.now += 30
    run(worker._heartbeats.round())
    assert worker.state.working(stage.now)
    assert not worker.held()
    stage.let_pass(1)
    assert worker.held()


@pytest.mark.case("W-12", "W-18")
def test_what_a_leaving_worker_had_is_taken_at_once() -> None:
    stage, notes = Stage(shards=4), Notes()
    leaver = stage.worker("a", work=notes)
    stays = stage.worker("b")
    stage.let_pass(12)
    lease = leaver.held()
    shard_id = min(lease)
    leaver.checkpoint(shard_id, lease[shard_id].epoch, after(7))
    stage.lose(leaver)
    leaver.leave()
    assert stage.rows()[shard_id].checkpoint == after(7), "the last checkpoint goes with it"
    assert ("stop", shard_id) in notes.words
    stage.let_pass(2)
    assert len(stays.held()) == 4
    assert [beat.worker for beat in stage.table.read_heartbeats(*SPACE)] == [stays.owner]


@pytest.mark.case("W-12")
def test_a_worker_that_leaves_deletes_its_heartbeat_once() -> None:
    stage = Stage(shards=2)
    leaver = stage.worker("a")
    stage.let_pass(3)
    stage.lose(leaver)
    deletes, delete = list[str](), stage.table.delete_heartbeat

    def delete_heartbeat(expected: Heartbeat) -> None:
        deletes.append(expected.worker)
        delete(expected)

    stage.table.delete_heartbeat = delete_heartbeat  # type: ignore[method-assign]
    leaver.leave()
    assert deletes == [leaver.owner]


@pytest.mark.case("W-12")
def test_a_worker_that_leaves_takes_nothing_and_asks_for_nothing() -> None:
    stage = Stage(shards=4)
    leaver = stage.worker("a")
    stage.let_pass(3)
    other = stage.worker("b")
    stage.let_pass(12)
    assert len(leaver.held()) == 2
    stage.lose(leaver)
    leaver._member.handle(e.Leaving())
    stage.lose(other)
    other.leave()  # what the other had is free now
    for _ in range(30):
        stage.now += 1
        leaver.tick()
    assert all(row.lease_owner is None for row in stage.rows().values())


@pytest.mark.case("W-11")
def test_a_lease_that_was_promised_to_an_asker_that_died_is_released_for_all() -> None:
    stage, notes = Stage(shards=2), Notes()
    owner = stage.worker("a", work=notes)
    stage.let_pass(3)
    asker = stage.worker("b")
    for _ in range(9):
        asker.tick()
        owner.tick()
        stage.now += 1
    (shard_id,) = (i for i, lease in owner.held().items() if lease.finishing)
    epoch = owner.held()[shard_id].epoch
    stage.lose(asker)
    stage.let_pass(30)
    assert not any(lease.finishing for lease in owner.held().values())
    assert owner.held()[shard_id].epoch > epoch, "never again under the epoch that was finished"
    words = [word[0] for word in notes.words if word[1] == shard_id]
    assert words[-2:] == ["stop", "start"]


@pytest.mark.case("W-03")
def test_two_workers_of_one_name_do_not_steal_from_each_other_for_ever() -> None:
    stage = Stage(shards=4)
    first = stage.worker("a")
    stage.let_pass(3)
    second = stage.worker("a")
    assert first.owner != second.owner
    stage.let_pass(40)
    epochs = {i: row.epoch for i, row in stage.rows().items()}
    stage.let_pass(40)
    assert {i: row.epoch for i, row in stage.rows().items()} == epochs
    assert stage.counts() == [2, 2]


@pytest.mark.case("W-13")
def test_shards_beyond_every_capacity_are_said(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(shards=5)
    stage.worker("a", capacity=2)
    stage.worker("b", capacity=2)
    stage.let_pass(15)
    assert stage.counts() == [2, 2]
    assert "shards of orders without an owner: 1; every worker is at its capacity" in caplog.text


@pytest.mark.req("K-13")
@pytest.mark.case("W-16")
def test_two_streams_and_two_apps_in_one_table_never_meet() -> None:
    stage = Stage(shards=1)
    spaces = [("app", "orders"), ("app", "payments"), ("other app", "orders")]
    workers = [stage.worker("a", space=space) for space in spaces]
    stage.let_pass(20)
    assert all(set(worker.held()) == {"s0"} for worker in workers)
    owners = [stage.table.read_rows(*space, ["s0"])["s0"].lease_owner for space in spaces]
    assert owners == [worker.owner for worker in workers]


def _out_of_reach(*_: object) -> None:
    raise TableUnavailable("no answer")
