"""Which query finds the end of a shard's next range, and what an answer means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardline.core.planning.limits import Bounds
from shardline.core.planning.queries import Answer, Kind, Place, Query
from shardline.core.planning.tips import Tip
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.core.silence import SILENCE

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def record(number: int) -> After:
    return After(SequenceNumber(str(number)))


def bounds(**changes: object) -> Bounds:
    given: dict[str, object] = {
        "now": NOON,
        "finds_times": True,
        "closed": False,
        "inline_bytes": 100_000,
    }
    return Bounds(**(given | changes))  # type: ignore[arg-type]


def tip_at(age: timedelta, number: int = 10) -> Tip:
    return Tip("shard", Place(record(number), NOON - age))


def asked(tip: Tip, limits: Bounds, *, bookmark: bool = False) -> Query:
    query = tip.next_query(limits, bookmark=bookmark)
    assert query is not None
    return query


def answer(
    query: Query, number: int | None = None, at: datetime = NOON, **changes: object
) -> Answer:
    found = record(number) if number is not None else None
    given: dict[str, object] = {
        "rows": 0 if number is None else 1,
        "size_bytes": 0 if number is None else 100,
        "first": None if number is None else After(SequenceNumber(str(number)), -1),
        "last": found,
        "first_at": None if number is None else at,
        "last_at": None if number is None else at,
        "behind_ms": 0,
    }
    return Answer(query, NOON, **(given | changes))  # type: ignore[arg-type]


def test_near_the_tip_records_are_read_and_travel_with_the_plan() -> None:
    tip, limits = tip_at(SECOND), bounds()
    query = asked(tip, limits)
    assert query.kind is Kind.FORWARD
    tip.answered(answer(query, 11, records="page"), limits)
    start, end, inline, _ = tip.take()
    assert (start, end.position, inline) == (record(10), record(11), ("page",))


def busy_tip(limits: Bounds) -> Tip:
    """Return a tip that had more than may travel a second ago."""
    tip = tip_at(SECOND)
    query = asked(tip, limits)
    full = {"rows": query.max_records, "size_bytes": 100_000, "records": "page"}
    tip.answered(answer(query, 11, NOON - SECOND, behind_ms=1_000, **full), limits)
    assert tip.next_query(limits, bookmark=True) is None, "what was read travels, and nothing else"
    assert tip.take().inline == ("page",)
    return tip


@pytest.mark.case("Y-04")
def test_near_a_busy_tip_one_record_after_a_bookmark_is_the_end() -> None:
    limits = bounds()
    tip = busy_tip(limits)
    assert asked(tip, limits).kind is Kind.SET_BOOKMARK
    query = asked(tip, limits, bookmark=True)
    assert (query.kind, query.max_records) == (Kind.BOOKMARK, 1)
    tip.answered(answer(query, 500), limits)
    assert tip.take()[1:3] == (Place(record(500), NOON), None)


def test_a_busy_tip_of_which_little_can_have_arrived_is_read() -> None:
    limits = bounds()
    tip = busy_tip(limits)
    soon = bounds(now=NOON - SECOND * 0.95)
    assert asked(tip, soon, bookmark=True).kind is Kind.FORWARD


def test_a_tip_with_records_too_big_to_travel_is_left_to_bookmarks() -> None:
    limits = bounds()
    tip = tip_at(SECOND)
    big: dict[str, Any] = {"size_bytes": 200_000, "cut": True, "behind_ms": 900}
    tip.answered(answer(asked(tip, limits), 11, **big), limits)
    assert tip.take().inline is None
    assert asked(tip, limits, bookmark=True).kind is Kind.BOOKMARK


def test_no_more_is_read_than_may_travel() -> None:
    limits = bounds(inline_bytes=50_000)
    tip = tip_at(SECOND)
    assert asked(tip, limits).max_records == 50
    assert asked(tip, limits).max_bytes == 50_000
    tip.record_bytes = 100.0
    assert asked(tip, limits).max_records == 500


def test_the_rest_after_a_range_found_by_time_travels_with_the_next_batch() -> None:
    tip, limits = tip_at(HOUR), bounds()
    tip.answered(answer(asked(tip, limits)), limits)
    tip.answered(answer(asked(tip, limits), 900, NOON - HOUR / 2), limits)
    while (query := asked(tip, limits)).kind is Kind.TIME:
        tip.answered(answer(query), limits)
    tip.answered(answer(query, 950, NOON - HOUR / 2, records="rest"), limits)
    assert tip.next_query(limits, bookmark=False) is None
    assert tip.take()[1:3] == (Place(record(900), NOON - HOUR / 2), None)
    assert tip.at_tip
    start, end, inline, _ = tip.take()
    assert (start, end.position, inline) == (record(900), record(950), ("rest",))


def test_more_than_may_travel_after_a_range_found_by_time_is_left_to_the_tasks() -> None:
    tip, limits = tip_at(HOUR), bounds()
    tip.answered(answer(asked(tip, limits)), limits)
    tip.answered(answer(asked(tip, limits), 900, NOON - HOUR / 2), limits)
    while (query := asked(tip, limits)).kind is Kind.TIME:
        tip.answered(answer(query), limits)
    tip.answered(answer(query, 950, NOON - HOUR / 2, behind_ms=1_000, records="page"), limits)
    assert tip.reached.position == record(950)
    assert asked(tip, limits).after == record(950)
    assert tip.take().inline is None


def test_an_empty_bookmark_says_nothing_about_what_lies_before_it() -> None:
    limits = bounds()
    tip = busy_tip(limits)
    query = asked(tip, limits, bookmark=True)
    tip.answered(answer(query), limits)
    assert not tip.at_tip
    again = asked(tip, limits, bookmark=True)
    assert (again.kind, again.after) == (Kind.FORWARD, record(11))


def test_an_expired_bookmark_is_no_bookmark() -> None:
    limits = bounds()
    tip = busy_tip(limits)
    query = asked(tip, limits, bookmark=True)
    tip.answered(answer(query, expired=True), limits)
    assert not tip.found
    assert asked(tip, limits, bookmark=True).kind is Kind.FORWARD


@pytest.mark.case("Y-01", "Y-02")
def test_behind_one_record_at_a_later_time_is_the_end() -> None:
    tip, limits = tip_at(HOUR), bounds()
    query = asked(tip, limits)
    assert (query.kind, query.max_records) == (Kind.TIME, 1)
    tip.answered(answer(query, 900, NOON - 2 * SECOND), limits)
    assert tip.take().end.position == record(900)


def test_a_time_with_nothing_after_it_bounds_the_search() -> None:
    tip, limits = tip_at(HOUR), bounds()
    times = []
    while (query := asked(tip, limits)).at is not None:
        times.append(query.at)
        tip.answered(answer(query), limits)
    assert times[:2] == [NOON - SECOND, NOON - HOUR + (HOUR - SECOND) / 2]
    assert times[-1] < NOON - HOUR + SECOND / 10
    assert query.kind is Kind.FORWARD
    assert not tip.found


def test_a_window_never_holds_more_than_the_limit() -> None:
    tip, limits = tip_at(HOUR), bounds(max_records=4_001)
    tip.records_per_second = 1_000.0
    query = asked(tip, limits)
    assert query.at == NOON - HOUR + 3 * SECOND, "and a burst"
    assert asked(tip, bounds(max_records=900)).kind is Kind.FORWARD, "a burst may exceed it"


def test_where_records_lie_far_apart_they_are_read_and_counted() -> None:
    tip, limits = tip_at(HOUR), bounds(max_records=4_001)
    tip.records_per_second = 1.0
    assert asked(tip, limits).kind is Kind.FORWARD


def written_at_once(limits: Bounds) -> Tip:
    """Return a tip far behind of which a page was read whose records have one stamp."""
    tip = Tip("shard", Place(TRIM_HORIZON, NOON - HOUR))
    page = {"rows": 20, "size_bytes": 20_000, "behind_ms": 3_600_000, "records": "page"}
    tip.answered(answer(asked(tip, limits), 29, NOON - HOUR, **page), limits)
    return tip


def test_records_that_were_written_at_once_do_not_lie_far_apart() -> None:
    limits = bounds(max_records=62_501)
    tip = written_at_once(limits)
    for _ in range(2):  # in this range, and in the one after it
        query = asked(tip, limits)
        assert (query.kind, query.at) == (Kind.TIME, tip.base.as_of + timedelta(seconds=61.5))
        tip.take()


def test_silence_after_records_that_were_written_at_once_shows_that_they_are_few() -> None:
    limits = bounds(max_records=62_501)
    tip = written_at_once(limits)
    query = asked(tip, limits)
    assert query.kind is Kind.TIME
    tip.answered(answer(query, 100, NOON - HOUR / 2, behind_ms=1_800_000), limits)
    tip.take()
    assert asked(tip, limits).kind is Kind.FORWARD


def test_stamps_that_go_back_are_no_progress_and_end_the_search_by_time() -> None:
    tip, limits = tip_at(HOUR, number=1000), bounds()
    for _ in range(2):
        query = asked(tip, limits)
        assert query.kind is Kind.TIME
        tip.answered(answer(query, 7), limits)
    assert not tip.found, "an end never falls"
    assert asked(tip, limits).kind is Kind.FORWARD


@pytest.mark.case("X-02")
def test_a_range_names_its_first_record() -> None:
    tip, limits = Tip("shard", Place(TRIM_HORIZON, NOON - HOUR)), bounds()
    query = asked(tip, limits)
    assert query.kind is Kind.FORWARD
    tip.answered(answer(query, 5, NOON - HOUR, behind_ms=3_600_000), limits)
    start, end, *_ = tip.take()
    assert start == After(SequenceNumber("5"), -1)
    assert end.position == record(5)


@pytest.mark.case("X-16")
def test_an_empty_page_before_the_tip_is_read_on() -> None:
    tip, limits = tip_at(HOUR), bounds()
    for lag_ms in (9_000, 8_000, 7_000):
        query = asked(tip, limits)
        tip.answered(answer(query, behind_ms=lag_ms), limits)
        assert asked(tip, limits) == query
    assert not tip.at_tip


@pytest.mark.case("X-09")
def test_an_end_is_believed_only_of_a_shard_that_a_listing_shows_closed() -> None:
    tip, limits = tip_at(SECOND), bounds()
    tip.answered(answer(asked(tip, limits), ended=True), limits)
    assert not tip.found
    closed = bounds(closed=True)
    tip.answered(answer(asked(tip, closed), ended=True), closed)
    assert tip.reached.position == SHARD_END


@pytest.mark.case("L-12")
@pytest.mark.parametrize("finds_times", [True, False])
def test_a_query_that_ends_waits_for_the_listing_of_a_shard_that_ended(finds_times: bool) -> None:
    tip, limits = tip_at(SECOND), bounds(until=NOON, finds_times=finds_times)
    ends = answer(asked(tip, limits), ended=True, behind_ms=0 if finds_times else None)
    tip.answered(ends, limits)
    assert not tip.at_tip, "its children may hold records from before the end"


def test_a_closed_shard_ends_without_a_query_where_its_rest_fits() -> None:
    tip = tip_at(HOUR)
    tip.settle(bounds(closed=True))
    assert tip.reached.position == SHARD_END
    limited = tip_at(HOUR)
    limited.settle(bounds(closed=True, max_records=10))
    assert not limited.found


@pytest.mark.case("X-05")
def test_a_service_that_names_no_tip_must_be_silent_for_long() -> None:
    tip = tip_at(SECOND)
    limits = bounds(finds_times=False, until=NOON)
    for seconds in (0, 1, 10, 20, 29):
        query = asked(tip, limits)
        silent = Answer(query, NOON + seconds * SECOND, behind_ms=None)
        tip.answered(silent, limits)
        assert not tip.at_tip
    tip.answered(Answer(asked(tip, limits), NOON + SILENCE, behind_ms=None), limits)
    assert tip.at_tip


def test_what_arrived_after_the_target_does_not_count() -> None:
    tip, limits = tip_at(SECOND), bounds(until=NOON)
    query = asked(tip, limits)
    assert query.until == NOON
    tip.answered(answer(query, 11, beyond=True, behind_ms=500), limits)
    assert tip.at_tip
    assert tip.next_query(limits, bookmark=False) is None
