"""Gap or no gap, from what is known of a place and what the service said about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.gaps import (
    START_GRACE,
    Evidence,
    Verdict,
    as_of_after_page,
    first_as_of,
    gap_at,
    inherited,
    judge,
    later_as_of,
    moved_with_parents,
)
from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber

DAY = timedelta(hours=24)
HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
RECORD = After(SequenceNumber("4951"))


def verdict_of(position: Position, age: timedelta, evidence: Evidence = Evidence.NONE) -> Verdict:
    return judge(position, NOON - age, now=NOON, retention=DAY, evidence=evidence)


@pytest.mark.req("K-02")
@pytest.mark.parametrize("position", [RECORD, TRIM_HORIZON, AtTime(NOON)])
def test_nothing_is_lost_within_the_retention(position: Position) -> None:
    assert verdict_of(position, 23 * HOUR) is Verdict.SAFE


@pytest.mark.req("K-02")
def test_an_old_place_at_a_record_is_asked_for_and_the_answer_decides() -> None:
    assert verdict_of(RECORD, 25 * HOUR) is Verdict.ASK
    assert verdict_of(RECORD, 25 * HOUR, Evidence.KEPT) is Verdict.SAFE
    assert verdict_of(RECORD, 25 * HOUR, Evidence.TRIMMED) is Verdict.GAP
    assert verdict_of(RECORD, 25 * HOUR, Evidence.GONE) is Verdict.GAP


@pytest.mark.req("K-02")
@pytest.mark.case("X-01")
def test_a_shard_that_was_known_for_a_day_and_never_read_is_a_gap() -> None:
    """Lease rows were made, or a query planned once; then nothing ran for 26 hours."""
    as_of = first_as_of(TRIM_HORIZON, known_at=NOON, retention=DAY)
    judged = judge(TRIM_HORIZON, as_of, now=NOON + 26 * HOUR, retention=DAY)
    assert judged is Verdict.GAP


@pytest.mark.case("X-01")
def test_a_child_that_waited_behind_a_drained_parent_for_too_long_is_a_gap() -> None:
    """Its first records are as old as its parent's last: 3 h before a pause of 22 h."""
    parent_left_at = NOON - 3 * HOUR
    own = later_as_of(known_at=NOON, retention=DAY)
    as_of = inherited(own, [parent_left_at])
    assert as_of == parent_left_at
    judged = judge(TRIM_HORIZON, as_of, now=NOON + 22 * HOUR, retention=DAY)
    assert judged is Verdict.GAP
    assert judge(TRIM_HORIZON, as_of, now=NOON + 20 * HOUR, retention=DAY) is Verdict.SAFE


@pytest.mark.case("X-15")
def test_the_as_of_of_a_child_that_waits_moves_with_its_parent() -> None:
    parents = {"child": ("parent",), "grandchild": ("child",)}
    first = dict.fromkeys(("parent", "child", "grandchild"), NOON - 12 * HOUR)
    later = moved_with_parents({**first, "parent": NOON + 10 * HOUR}, parents, {})
    assert set(later.values()) == {NOON + 10 * HOUR}
    judged = judge(TRIM_HORIZON, later["grandchild"], now=NOON + 16 * HOUR, retention=DAY)
    assert judged is Verdict.SAFE


@pytest.mark.case("X-15")
def test_a_merged_child_is_as_old_as_its_older_parent() -> None:
    parents = {"child": ("left", "right")}
    moved = moved_with_parents(
        {"left": NOON - 2 * HOUR, "child": NOON - 9 * HOUR}, parents, {"right": NOON - HOUR}
    )
    assert moved["child"] == NOON - 2 * HOUR


@pytest.mark.case("X-01")
def test_a_gap_that_is_excused_in_a_parent_says_nothing_about_its_child() -> None:
    first = gap_at("parent", TRIM_HORIZON, NOON, now=NOON + 30 * HOUR, retention=DAY, reason="")
    then = gap_at(
        "parent", TRIM_HORIZON, first.until, now=NOON + 31 * HOUR, retention=DAY, reason=""
    )
    places = {"parent": then.until, "child": NOON}
    parents = {"child": ("parent",)}
    moved = moved_with_parents(places, parents, {}, [first, then])
    assert moved["child"] == NOON
    read_on = {**places, "parent": then.until + HOUR}
    assert moved_with_parents(read_on, parents, {}, [first, then])["child"] == then.until + HOUR


def test_a_parent_of_which_nothing_is_known_vouches_for_nothing() -> None:
    assert inherited(NOON, [None]) == NOON
    assert moved_with_parents({"child": NOON}, {"child": ("gone",)}, {"gone": None}) == {
        "child": NOON
    }


@pytest.mark.case("X-24")
def test_a_quiet_shard_that_is_read_at_its_tip_is_never_a_gap() -> None:
    as_of = NOON
    for hours in range(26):
        service_time = NOON + hours * HOUR
        as_of = as_of_after_page(
            as_of, last_arrival=None, behind_ms=0, service_time=service_time, closed=False
        )
        assert judge(RECORD, as_of, now=service_time, retention=DAY) is Verdict.SAFE
    # Its record expired; nothing else did.
    now = NOON + 30 * HOUR
    judged = judge(RECORD, as_of, now=now, retention=DAY, evidence=Evidence.TRIMMED)
    assert judged is Verdict.HORIZON


@pytest.mark.case("X-11")
def test_a_shard_younger_than_the_retention_is_never_gone() -> None:
    assert verdict_of(TRIM_HORIZON, HOUR, Evidence.GONE) is Verdict.AGAIN
    assert verdict_of(RECORD, HOUR, Evidence.GONE) is Verdict.AGAIN


@pytest.mark.case("X-21")
def test_a_trimmed_horizon_is_asked_for_again() -> None:
    assert verdict_of(TRIM_HORIZON, 23 * HOUR, Evidence.TRIMMED) is Verdict.AGAIN
    assert verdict_of(TRIM_HORIZON, 25 * HOUR, Evidence.TRIMMED) is Verdict.GAP


def test_a_start_at_the_horizon_is_no_gap_while_it_is_young() -> None:
    as_of = first_as_of(TRIM_HORIZON, known_at=NOON, retention=DAY)
    soon, late = NOON + START_GRACE / 2, NOON + START_GRACE
    assert judge(TRIM_HORIZON, as_of, now=soon, retention=DAY) is Verdict.SAFE
    assert judge(TRIM_HORIZON, as_of, now=late, retention=DAY) is Verdict.GAP


def test_a_start_at_a_time_promises_what_arrived_since_then() -> None:
    def promised(position: Position) -> datetime:
        return first_as_of(position, known_at=NOON, retention=DAY)

    assert promised(AtTime(NOON - 5 * HOUR)) == NOON - 5 * HOUR
    assert promised(AtTime(NOON - 50 * HOUR)) == promised(TRIM_HORIZON)
    assert promised(LATEST) == NOON


def test_as_of_follows_what_is_read_and_never_moves_back() -> None:
    def after(last: datetime | None, behind_ms: int | None, *, closed: bool = False) -> datetime:
        return as_of_after_page(
            NOON, last_arrival=last, behind_ms=behind_ms, service_time=NOON + HOUR, closed=closed
        )

    assert after(NOON + HOUR / 2, None) == NOON + HOUR / 2
    assert after(NOON - HOUR, None) == NOON
    assert after(None, None) == NOON
    assert NOON < after(None, 600_000) < NOON + HOUR * 50 / 60
    assert after(None, 0, closed=True) == NOON  # its end says nothing about its children


def test_a_gap_says_where_it_is_and_how_far_it_reaches() -> None:
    gap = gap_at("shard-3", RECORD, NOON - 30 * HOUR, now=NOON, retention=DAY, reason="why")
    assert str(gap).startswith("gap in shard-3 after 4951: what arrived there from 2026-11-14T06")
    assert gap.since == NOON - 30 * HOUR
    assert gap.since < gap.until < NOON - 23 * HOUR
