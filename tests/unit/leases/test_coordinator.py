"""The coordinator in its own threads, and what it promises to whoever works on the shards."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.leasing.parked_keys import MOST_PARKED_KEYS, ParkedKey
from shardline.core.leasing.times import LeaseTimes
from shardline.errors import LeaseLost
from shardline.leases.coordinator import Coordinator, TooManyParkedKeys
from shardline.services.clock import boot_seconds
from tests.twins.lease_table import MemoryLeaseTable
from tests.unit.leases.stage import SPACE, Notes, Stage, after

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.core.leasing.holdings import Held


@pytest.mark.req("K-14", "K-31")
@pytest.mark.case("W-18")
def test_threads_take_leases_and_leaving_hands_them_over() -> None:
    stage = Stage(shards=3)
    first, second = (_coordinator(stage, name) for name in ("a", "b"))
    first.start()
    try:
        _wait_for(lambda: len(first.held()) == 3)
        shard_id, lease = next(iter(first.held().items()))
        first.checkpoint(shard_id, lease.epoch, after(7))
        second.start()
        assert first.leave()
        assert not first.held()
        _wait_for(lambda: len(second.held()) == 3)
        assert second.held()[shard_id].checkpoint == after(7)
    finally:
        first.leave()
        second.leave()
    assert stage.table.read_heartbeats(*SPACE) == ()


@pytest.mark.case("X-18")
def test_threads_renew_while_the_listing_hangs() -> None:
    stage = Stage(shards=2)
    hanging, released = threading.Event(), threading.Event()

    def list_shards() -> tuple[object, ...]:
        if hanging.is_set():
            released.wait(60)
        return stage.listing.shards

    stage.listing.list_shards = list_shards  # type: ignore[method-assign, assignment]
    coordinator = _coordinator(stage, lease_seconds=0.5)
    coordinator.start()
    try:
        _wait_for(lambda: len(coordinator.held()) == 2)
        hanging.set()
        coordinator.complete("s0", coordinator.held()["s0"].epoch)  # it asks for a listing
        (before,) = stage.table.read_heartbeats(*SPACE)
        _wait_for(lambda: stage.table.read_heartbeats(*SPACE)[0].count > before.count + 6)
        assert "s1" in coordinator.held()
    finally:
        released.set()
        coordinator.leave()


@pytest.mark.req("K-29")
def test_each_step_of_the_start_wakes_whoever_waits_for_it() -> None:
    stage = Stage(shards=1)
    worker, woken = stage.worker("a"), list[str]()
    worker._member.wake = woken.append
    worker.tick()
    worker.tick()
    assert woken[:4] == ["heartbeats", "rows", "rows", "listings"]
    assert worker.held(), "described, renewed, header made, listed, taken: without a pause between"


@pytest.mark.case("X-28")
def test_leaving_ends_at_its_deadline_though_the_table_hangs() -> None:
    stage = Stage(shards=1)
    coordinator = _coordinator(stage)
    coordinator.start()
    _wait_for(lambda: len(coordinator.held()) == 1)
    released = threading.Event()
    stage.table.swap_row = lambda *_: released.wait(10)  # type: ignore[method-assign, assignment]
    try:
        assert coordinator.leave(deadline_seconds=0.3) is False, "it waited for the table"
        assert stage.rows()["s0"].lease_owner == coordinator.owner, "it was not released"
    finally:
        released.set()


def test_a_worker_may_call_back_from_its_own_lock() -> None:
    """Calls to the worker are made without the coordinator's lock: the two never lock up."""
    stage = Stage(shards=1)
    mine, started = threading.RLock(), threading.Event()

    class Locked(Notes):
        def start(self, shard_id: str, epoch: int, lease: Held) -> None:
            entered.wait(10)
            with mine:
                super().start(shard_id, epoch, lease)
                started.set()

    entered = threading.Event()
    coordinator = _coordinator(stage, work=Locked())
    coordinator.start()
    try:
        with mine:
            entered.set()
            _wait_for(lambda: len(coordinator.held()) == 1)  # it needs the coordinator's lock
        assert started.wait(10)
    finally:
        coordinator.leave()


@pytest.mark.case("X-29")
def test_the_clock_of_leases_counts_the_time_that_a_machine_sleeps() -> None:
    worker = Coordinator(
        MemoryLeaseTable(),
        Stage().listing,  # type: ignore[arg-type] # it need not read
        *SPACE,
        "a",
    )
    assert worker._member.clock is boot_seconds
    if hasattr(time, "CLOCK_BOOTTIME"):
        assert abs(boot_seconds() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


@pytest.mark.req("K-15")
def test_two_workers_of_one_name_are_two_owners() -> None:
    stage = Stage(shards=1)
    first, second = stage.worker("run-1/0/1"), stage.worker("run-1/0/1")
    assert first.owner != second.owner


@pytest.mark.case("X-29", "X-36")
def test_a_lost_lease_is_told_before_anything_else_of_that_shard() -> None:
    stage, notes = Stage(shards=1), Notes()
    stage.worker("a", work=notes)
    stage.let_pass(1)
    stage.now += 2 * stage.times.lease_seconds  # it was frozen
    stage.let_pass(2)
    row = stage.rows()["s0"]
    assert [word[:2] for word in notes.words] == [("start", "s0"), ("stop", "s0"), ("start", "s0")]
    assert notes.words[-1][2] == row.epoch


def test_a_shard_that_is_given_up_is_left_to_others_for_a_while() -> None:
    stage, notes = Stage(shards=2), Notes()
    worker, other = stage.worker("a", work=notes), stage.worker("b")
    stage.let_pass(15)
    ((shard_id, lease),) = worker.held().items()
    worker.give_up(shard_id, lease.epoch, "its consumer hangs")
    assert notes.words[-1] == ("stop", shard_id)
    with pytest.raises(LeaseLost, match="gave up"):
        worker.checkpoint(shard_id, lease.epoch, after(3))
    stage.let_pass(12)
    assert shard_id in other.held()


def test_a_lone_worker_takes_a_shard_that_it_gave_up_after_a_while() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.give_up("s0", epoch, "its consumer hangs")
    stage.let_pass(stage.times.avoid_seconds - 2)
    assert not worker.held()
    assert stage.rows()["s0"].lease_owner is None
    stage.let_pass(6)
    assert worker.held()["s0"].epoch == epoch + 1


def test_a_shard_that_was_given_up_is_not_asked_for() -> None:
    stage = Stage(shards=3)
    worker, other = stage.worker("a"), stage.worker("b")
    stage.let_pass(15)
    if len(worker.held()) == 1:
        worker, other = other, worker
    given_up = worker.held()
    for shard_id, lease in given_up.items():
        worker.give_up(shard_id, lease.epoch, "its consumer hangs")
    asked: set[str] = set()
    for _ in range(int(stage.times.avoid_seconds) - 1):
        stage.let_pass(1)
        asked.update(i for beat in stage.table.read_heartbeats(*SPACE) for i in beat.asks)
    assert len(given_up) == 2
    assert given_up.keys() <= other.held().keys()
    assert asked.isdisjoint(given_up)


def test_the_first_acknowledgement_after_starts_without_one_is_written_at_once() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    rows = worker._wakes["rows"] = threading.Event()
    worker.checkpoint("s0", worker.held()["s0"].epoch, after(1))
    assert not rows.is_set()
    worker.restart("s0", worker.held()["s0"].epoch)
    stage.let_pass(1)
    worker.restart("s0", worker.held()["s0"].epoch)
    stage.let_pass(1)
    rows.clear()
    worker.checkpoint("s0", worker.held()["s0"].epoch, after(2))
    assert rows.is_set()
    stage.let_pass(1)
    row = stage.rows()["s0"]
    assert (row.checkpoint, row.starts) == (after(2), 0)


def test_work_that_ends_for_no_fault_of_its_own_is_never_halted() -> None:
    stage = Stage(shards=1, most_starts=3)
    worker = stage.worker("a")
    for _ in range(6):
        stage.let_pass(1)
        worker.restart("s0", worker.held()["s0"].epoch, counted=False)
    stage.let_pass(2)
    row = stage.rows()["s0"]
    assert (row.starts, row.halted, row.epoch) == (1, "", worker.held()["s0"].epoch)


@pytest.mark.req("K-25")
def test_work_that_ended_by_itself_is_started_again_under_a_new_epoch() -> None:
    stage, notes = Stage(shards=1), Notes()
    worker = stage.worker("a", work=notes)
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.checkpoint("s0", epoch, after(4))
    worker.restart("s0", epoch)
    stage.let_pass(1)
    assert notes.words[-2:] == [("stop", "s0"), ("start", "s0", epoch + 1, after(4))]


def test_work_that_ends_by_itself_again_and_again_is_halted() -> None:
    stage = Stage(shards=1, most_starts=3)
    worker = stage.worker("a")
    for _ in range(3):
        stage.let_pass(1)
        lease = worker.held().get("s0")
        if lease is not None:
            worker.restart("s0", lease.epoch)
    stage.let_pass(2)
    assert "ended each time before anything was acknowledged" in stage.rows()["s0"].halted
    assert not worker.held()


def test_parked_keys_outlive_their_owner_and_only_the_owner_changes_them() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.park("s0", epoch, "k1", "letter-1")
    worker.park("s0", epoch, "k2", "letter-2")
    assert worker.parked("s0") == {"k1", "k2"}
    stage.lose(worker)
    heir = stage.worker("b")
    stage.let_pass(25)
    lease = heir.held()["s0"]
    assert lease.parked == {"k1", "k2"}
    with pytest.raises(LeaseLost):
        worker.park("s0", epoch, "k3", "letter-3")
    heir.unpark("s0", lease.epoch, "k1", "letter-1")
    assert heir.parked("s0") == {"k2"}
    assert [row.key for row in stage.table.read_parked_keys(*SPACE, ["s0"])] == ["k2"]


def test_a_zombie_that_thinks_it_holds_the_lease_cannot_park() -> None:
    stage = Stage(shards=1)
    zombie = stage.worker("a")
    stage.let_pass(1)
    epoch = zombie.held()["s0"].epoch
    row = stage.rows()["s0"]
    stage.table._rows[SPACE]["s0"] = row.__class__(
        **{f: getattr(row, f) for f in row.__slots__} | {"lease_owner": "b/1", "epoch": epoch + 1}
    )
    with pytest.raises(LeaseLost):
        zombie.park("s0", epoch, "k", "letter")
    assert stage.table.read_parked_keys(*SPACE, ["s0"]) == ()


def test_children_inherit_the_parked_keys_of_their_parents_before_they_start() -> None:
    stage, notes = Stage(shards=1), Notes()
    worker = stage.worker("a", work=notes)
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.park("s0", epoch, "k1", "letter-1")
    stage.listing.split("s0", "c1", "c2")
    worker.complete("s0", epoch)
    stage.let_pass(3)
    assert {i: lease.parked for i, lease in worker.held().items()} == {"c1": {"k1"}, "c2": {"k1"}}
    worker.unpark("c1", worker.held()["c1"].epoch, "k1", "letter-1")
    worker.restart("c2", worker.held()["c2"].epoch)
    stage.let_pass(2)
    assert worker.held()["c2"].parked == frozenset(), "it is unparked for good"


def test_a_shard_parks_a_limited_number_of_keys() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    for n in range(MOST_PARKED_KEYS):
        stage.table.park_key(ParkedKey(*SPACE, "s0", f"k{n}", "letter", epoch), worker.owner)
    worker.unpark("s0", epoch, "none", "such")  # reads them all
    worker.park("s0", epoch, "k7", "a later letter")
    with pytest.raises(TooManyParkedKeys, match="s0 has 1000 parked keys"):
        worker.park("s0", epoch, "one more", "letter")


def _coordinator(
    stage: Stage, name: str = "a", *, lease_seconds: float = 5.0, **options: Any
) -> Coordinator:
    """Return a coordinator on the real clock."""
    return Coordinator(
        stage.table,
        stage.listing,  # type: ignore[arg-type] # it need not read
        *SPACE,
        name,
        times=LeaseTimes(lease_seconds=lease_seconds),
        **options,
    )


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for a minute in vain"
        time.sleep(0.02)
