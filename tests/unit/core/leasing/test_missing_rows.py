"""Which rows are created, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.leasing.instructions import Bump, Create
from shardline.core.leasing.ledger import Ledger
from shardline.core.leasing.missing_rows import MissingRows
from shardline.core.leasing.peers import Peers
from shardline.core.leasing.rows import (
    EPOCHS_PER_MOVE,
    Header,
    Heartbeat,
    LeaseRow,
    finished,
    taken,
)
from shardline.core.positions import TRIM_HORIZON, AtTime, Position
from shardline.core.shards import SequenceNumber, Shard

if TYPE_CHECKING:
    from collections.abc import Callable

BIRTH = datetime(2030, 1, 1, tzinfo=UTC)
SPACE = ("app", "orders")
OTHERS = ["", "with a heartbeat", "without a heartbeat"]
"""Another worker that may live, if there is one: somebody may have deleted its heartbeat."""


@pytest.mark.case("L-04")
def test_from_latest_a_parent_gets_its_row_before_its_child_does() -> None:
    """A shard that opened and closed between two listings is not skipped for want of a row."""
    header = Header(*SPACE, BIRTH, AtTime(BIRTH), settled=True, latest=True)
    end = SequenceNumber("9")
    listed = (Shard("s0", last=end), Shard("s1", ("s0",), last=end), Shard("s2", ("s1",)))
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("a/1", 10.0)
    ledger.read_header(header, 0.0)
    ledger.list_shards(listed, 0.0)
    ledger.remember(taken(LeaseRow(*SPACE, "s0", BIRTH), "a/1"), 0.0)
    missing.moved(header, 99.0)

    def created() -> list[LeaseRow]:
        found = missing.create(
            header, ledger, Peers("a/1", 10.0), 0.0,
            service_time=BIRTH, retention=timedelta(days=1),
        )  # fmt: skip
        return [instruction.new for instruction in found if isinstance(instruction, Create)]

    rows = created()
    assert [row.shard_id for row in rows] == ["s1"]
    ledger.remember(rows[0], 0.0)
    missing.moved(header, 99.0)
    assert [row.shard_id for row in created()] == ["s2"]


@pytest.mark.case("L-04")
def test_from_latest_a_child_waits_for_a_parent_that_was_not_listed_here_yet() -> None:
    header = Header(*SPACE, BIRTH, AtTime(BIRTH), settled=True, latest=True)
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("a/1", 10.0)
    ledger.read_header(header, 0.0)
    ledger.list_shards((Shard("s0", last=SequenceNumber("9")), Shard("s2", ("s0", "s1"))), 0.0)
    ledger.remember(taken(LeaseRow(*SPACE, "s0", BIRTH), "a/1"), 0.0)
    missing.moved(header, 99.0)

    def created() -> list[Create | Bump]:
        return list(
            missing.create(
                header, ledger, Peers("a/1", 10.0), 0.0,
                service_time=BIRTH, retention=timedelta(days=1),
            )
        )  # fmt: skip

    assert created() == []
    ledger.looked_up("s1", False, 0.0)
    missing.moved(header, 99.0)
    assert [c.new.shard_id for c in created() if isinstance(c, Create)] == ["s2"]


@pytest.mark.case("L-04")
def test_from_latest_a_grandchild_waits_although_the_start_is_not_settled() -> None:
    """The worker that resolved "latest" died; others list what was split twice since."""
    header = Header(*SPACE, BIRTH, AtTime(BIRTH), latest=True)
    end = SequenceNumber("9")
    listed = (Shard("s0", last=end), Shard("s1", ("s0",), last=end), Shard("s2", ("s1",)))
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("a/1", 10.0)
    ledger.read_header(header, 0.0)
    ledger.list_shards(listed, 0.0)
    created: list[str] = []
    for now in (0.0, 1.0, 21.0, 22.0, 23.0, 24.0):
        missing.moved(header, 99.0)
        for instruction in missing.create(
            header, ledger, Peers("a/1", 10.0), now,
            service_time=BIRTH, retention=timedelta(days=1),
        ):  # fmt: skip
            if isinstance(instruction, Create):
                created.append(instruction.new.shard_id)
                ledger.remember(instruction.new, now)
    assert created == ["s0", "s1", "s2"]


@pytest.mark.case("R-06")
@pytest.mark.parametrize("replaced", ["", "s9", "s0"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_row_that_may_be_deleted_is_left_to_its_holder_for_a_lease_time(
    other: str, replaced: str
) -> None:
    """The holder knows the position; a worker that has just joined would begin anew.

    Where the row of an earlier stream is in its place, nobody has created one of this stream.
    """
    header = Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True)
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("b/1", 10.0)
    ledger.read_header(header, 0.0)
    ledger.list_shards([Shard("s0")], 0.0)
    if replaced:
        ledger.remember(LeaseRow(*SPACE, replaced, BIRTH - timedelta(days=1)), 0.0)
    at_once = not other or replaced == "s0"
    assert first_created_at(header, ledger, missing, other) == (0.0 if at_once else 10.0)


@pytest.mark.case("R-06")
@pytest.mark.parametrize("holder", [None, "a/1", "b/1", "completed"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_deleted_row_is_left_to_whoever_may_have_taken_it_since_it_was_read(
    other: str, holder: str | None
) -> None:
    """A worker that holds it creates it at once, unless it lapsed: then another may have it."""
    header = Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True)
    row = replace(LeaseRow(*SPACE, "s0", BIRTH), lease_owner=holder, lease_count=1)
    if holder == "completed":
        row = finished(row)
    for lapsed in (False, True):
        ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("b/1", 10.0)
        missing.doubtful = {"s0"} if lapsed else set()
        ledger.read_header(header, 0.0)
        ledger.list_shards([Shard("s0")], 0.0)
        ledger.remember(row, 0.0)
        ledger.missed("s0")
        at_once = holder == "completed" or (holder == "b/1" and not lapsed) or not other
        assert first_created_at(header, ledger, missing, other) == (0.0 if at_once else 10.0)


def first_created_at(
    header: Header, ledger: Ledger, missing: MissingRows, other: str
) -> float | None:
    """Return when a worker that looks again and again creates its first row."""
    peers = Peers("b/1", 10.0)
    beats = (Heartbeat(*SPACE, other, count=1),) if other else ()
    peers.observe(beats, (), 0.0)
    if other == "without a heartbeat":
        peers.observe((), (), 0.0)
    for now in (0.0, 5.0, 9.9, 10.0):
        missing.moved(header, 99.0)
        found = missing.create(
            header, ledger, peers, now, service_time=BIRTH, retention=timedelta(days=1)
        )
        if any(isinstance(instruction, Create) for instruction in found):
            return now
    return None


@pytest.mark.case("L-04")
def test_a_parent_whose_row_was_deleted_was_not_skipped() -> None:
    header = Header(*SPACE, BIRTH, AtTime(BIRTH), settled=True, latest=True)
    ledger = Ledger(goes_on_after_gaps=False)
    ledger.read_header(header, 0.0)
    listed = (Shard("s0", last=SequenceNumber("9")), Shard("s1", ("s0",)))
    ledger.list_shards(listed, 0.0)
    ledger.remember(LeaseRow(*SPACE, "s0", BIRTH), 0.0)
    child = LeaseRow(*SPACE, "s1", BIRTH, parents=("s0",), checkpoint=AtTime(BIRTH))
    ledger.remember(child, 0.0)
    for again in range(3):
        ledger.missed("s0")
        ledger.list_shards((*listed, Shard(f"other{again}")), 1.0 + again)
        assert "s1" not in ledger.leasable
        assert ledger.lost_in_use() == ["s0"]


@pytest.mark.case("L-16")
@pytest.mark.parametrize("begun", [True, False])
def test_a_deleted_row_is_not_made_again_once_a_descendant_has_begun(begun: bool) -> None:
    """It was completed after it was read here; made again, it would be worked on once more."""
    ledger = Ledger(goes_on_after_gaps=False)
    ledger.read_header(Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True), 0.0)
    ledger.list_shards((Shard("s0", last=SequenceNumber("9")), Shard("s1", ("s0",))), 0.0)
    ledger.remember(taken(LeaseRow(*SPACE, "s0", BIRTH), "a/1"), 0.0)
    child = LeaseRow(*SPACE, "s1", BIRTH, parents=("s0",))
    ledger.remember(taken(child, "a/1") if begun else child, 0.0)
    ledger.missed("s0")
    assert ledger.lost_in_use() == ([] if begun else ["s0"])


@pytest.mark.case("X-11")
def test_a_listing_with_an_ancestor_is_older_than_the_shard_that_it_lacks() -> None:
    ledger = Ledger(goes_on_after_gaps=True)
    ledger.read_header(Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True), 0.0)
    for shard_id, parents in (("s0", ()), ("s1", ("s0",)), ("s2", ("s1",)), ("t0", ())):
        ledger.remember(LeaseRow(*SPACE, shard_id, BIRTH, parents=parents), 0.0)
    ledger.list_shards((Shard("s0"),), 1.0)
    assert [i for i in ("s1", "s2", "t0") if ledger.predates(i)] == ["s1", "s2"]


@pytest.mark.case("X-15")
def test_nothing_is_older_than_the_stream() -> None:
    """A root shard that is seen late in a young stream is no gap: nothing can have expired."""
    header = Header(*SPACE, BIRTH, TRIM_HORIZON, settled=True)
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("a/1", 10.0)
    ledger.read_header(header, 0.0)
    ledger.list_shards((Shard("s0"),), 0.0)
    missing.moved(header, 99.0)
    (create,) = missing.create(
        header, ledger, Peers("a/1", 10.0), 0.0,
        service_time=BIRTH + timedelta(hours=1), retention=timedelta(days=1),
    )  # fmt: skip
    assert isinstance(create, Create)
    assert create.new.as_of == BIRTH


@pytest.mark.case("X-01")
@pytest.mark.parametrize("start", [TRIM_HORIZON, AtTime(BIRTH)])
def test_a_row_that_is_created_late_promises_what_was_kept_when_the_app_began(
    start: Position,
) -> None:
    """Else what expires between the header and the row is lost without a gap."""
    header = Header(*SPACE, BIRTH, start, began_at=BIRTH)
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("a/1", 10.0)
    ledger.read_header(header, 0.0)
    ledger.list_shards((Shard("s0"),), 0.0)
    missing.moved(header, 99.0)
    (create,) = missing.create(
        header, ledger, Peers("a/1", 10.0), 0.0,
        service_time=BIRTH + timedelta(days=2), retention=timedelta(days=1),
    )  # fmt: skip
    assert isinstance(create, Create)
    assert create.new.as_of == BIRTH


@pytest.mark.case("W-14", "L-04")
def test_from_latest_a_child_gets_no_row_while_that_of_a_parent_was_deleted() -> None:
    """Else a worker that never knew the parent's row takes the parent for skipped."""
    header = Header(*SPACE, BIRTH, AtTime(BIRTH), settled=True, latest=True)
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("a/1", 10.0)
    end = SequenceNumber("9")
    ledger.read_header(header, 0.0)
    ledger.list_shards(
        (Shard("s0", last=end), Shard("s1", last=end), Shard("s2", ("s0", "s1"))), 0.0
    )
    for shard_id in ("s0", "s1"):
        ledger.remember(taken(LeaseRow(*SPACE, shard_id, BIRTH), "a/1"), 0.0)
    ledger.missed("s0")
    missing.moved(header, 99.0)
    created = missing.create(
        header, ledger, Peers("a/1", 10.0), 0.0, heirs_of=("s1",),
        service_time=BIRTH, retention=timedelta(days=1),
    )  # fmt: skip
    assert [c.new.shard_id for c in created if isinstance(c, Create)] == ["s0"]


def rows_of_two_shards(header: Header) -> tuple[MissingRows, Callable[[int], list[int | Bump]]]:
    """Return what decides, and what it says at a number of moves: first epochs, or a move."""
    ledger, missing = Ledger(goes_on_after_gaps=False), MissingRows("a/1", 10.0)
    ledger.read_header(header, 0.0)
    ledger.list_shards((Shard("s0"), Shard("s1")), 0.0)

    def created(moves: int) -> list[int | Bump]:
        found = missing.create(
            replace(header, moves=moves), ledger, Peers("a/1", 10.0), 0.0,
            service_time=BIRTH, retention=timedelta(days=1),
        )  # fmt: skip
        return [i.new.epoch if isinstance(i, Create) else i for i in found]

    return missing, created


@pytest.mark.case("W-14")
def test_a_row_s_first_epoch_is_above_all_that_others_may_have_given_it() -> None:
    """A move of the counter serves the rows of one round, if nobody has moved it since."""
    header = Header(*SPACE, BIRTH, TRIM_HORIZON, moves=3, settled=True)
    missing, created = rows_of_two_shards(header)
    assert created(3) == [Bump()]
    missing.moved(replace(header, moves=4), 99.0)
    assert created(5) == [Bump()], "another worker moved it since"
    missing.moved(replace(header, moves=6), 99.0)
    assert created(6) == [6 * EPOCHS_PER_MOVE] * 2
    assert created(6) == [Bump()], "its rows may have been taken, and deleted"


def test_the_first_rows_of_an_app_need_one_move_of_each_worker() -> None:
    """Else a hundred workers that start together would wait for each other's moves."""
    header = Header(*SPACE, BIRTH, TRIM_HORIZON, moves=3)
    missing, created = rows_of_two_shards(header)
    missing.moved(replace(header, moves=4), 99.0)
    assert created(4) == created(9) == [4 * EPOCHS_PER_MOVE] * 2
    missing.moved(replace(header, moves=10), -1.0)
    assert created(10) == [Bump()], "a row that went missing since may have been taken, and deleted"
