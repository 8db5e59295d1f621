"""Which time to read at next in the search for the end of a range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.planning.limits import Bounds
from shardline.core.planning.queries import Answer, Kind, Place, Query
from shardline.core.planning.time_search import TimeSearch
from shardline.core.positions import TRIM_HORIZON
from shardline.core.silence import SILENCE, WHOLE_MINUTE

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
STEP = SECOND / 25


def place(seconds_before_noon: float) -> Place:
    return Place(TRIM_HORIZON, NOON - seconds_before_noon * SECOND)


def bounds(**changes: object) -> Bounds:
    given: dict[str, object] = {"now": NOON, "finds_times": True, "closed": False}
    return Bounds(**(given | changes))  # type: ignore[arg-type]


def test_the_first_time_is_the_newest_one_that_the_range_may_reach() -> None:
    search, base = TimeSearch(), place(3_600)
    assert search.next_time(base, base, bounds(), STEP) == NOON - SECOND
    until = NOON - 9 * SECOND
    assert search.next_time(base, base, bounds(until=until), STEP) == until
    window = bounds(max_records=10_001)
    assert search.next_time(base, base, window, STEP) == base.as_of + 9 * SECOND


def test_a_short_burst_long_ago_is_searched_by_its_magnitude() -> None:
    search, base = TimeSearch(), place(101)
    last = base.as_of + 0.9 * SECOND
    reached, times = base, []
    while (time := search.next_time(base, reached, bounds(), STEP)) is not None:
        times.append((time - base.as_of) / SECOND)
        if time <= last:
            reached = Place(TRIM_HORIZON, time)
            search.found_one()
        else:
            search.nothing_at(time)
    assert len(times) <= 11, times


@pytest.mark.parametrize("span_seconds", [0.01, 0.05, 0.07, 0.1, 1, 60, 3_600, 80_000])
@pytest.mark.parametrize("share", [0.0, 0.0001, 0.02, 0.3, 0.5, 0.8, 0.999])
def test_the_last_record_is_found_within_the_smallest_step_by_few_times(
    span_seconds: float, share: float
) -> None:
    """Wherever it lies, also if nothing lies after the place at which the search begins."""
    search, base = TimeSearch(), place(span_seconds + 1)
    last = base.as_of + share * span_seconds * SECOND
    reached, steps = base, 0
    while (time := search.next_time(base, reached, bounds(), STEP)) is not None:
        steps += 1
        assert steps <= 25, "the search does not end"
        if time <= last:
            reached = Place(TRIM_HORIZON, time)
            search.found_one()
        else:
            search.nothing_at(time)
    assert timedelta(0) <= last - reached.as_of <= 2 * STEP


def test_what_ended_long_ago_is_found_in_fewer_times_than_halving_takes() -> None:
    search, base, times = TimeSearch(), place(3_600), []
    for _ in range(4):
        time = search.next_time(base, base, bounds(), STEP)
        assert time is not None
        times.append(round((time - base.as_of) / SECOND))
        search.nothing_at(time)
    assert times == [3599, 1800, 112, 7]


def test_only_a_long_silence_counts_as_the_tip_where_the_service_does_not_name_it() -> None:
    search = TimeSearch()
    query = Query("shard", Kind.FORWARD, TRIM_HORIZON, 100)
    for part in range(3):
        assert search.nothing_before(Answer(query, NOON + SILENCE * part / 3)) is None
    assert search.nothing_before(Answer(query, NOON + SILENCE)) == NOON - WHOLE_MINUTE
    assert search.nothing_before(Answer(query, NOON + SILENCE, rows=1)) is None
    assert search.nothing_before(Answer(query, NOON + SILENCE)) is None
