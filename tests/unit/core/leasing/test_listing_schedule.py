"""When a worker lists: the one on duty now and then, the others rarely, an ended shard at once."""

from __future__ import annotations

import pytest

from shardline.core.leasing.listing_schedule import ListingSchedule


def test_the_first_listing_is_due_at_once() -> None:
    assert ListingSchedule().due_at(wanted=False, on_duty=False, workers=9) == float("-inf")


@pytest.mark.case("Y-07")
@pytest.mark.parametrize(
    ("shards", "took_seconds", "on_duty", "workers", "seconds"),
    [
        (10, 0.1, True, 20, 10),
        (10, 0.1, False, 20, 200),
        (5_000, 0.1, True, 20, 50),
        (10, 4.0, True, 20, 80),  # throttled: less often
    ],
)
def test_a_whole_listing_is_repeated_within_the_quota_of_the_fleet(
    shards: int, took_seconds: float, on_duty: bool, workers: int, seconds: float
) -> None:
    schedule = ListingSchedule()
    schedule.listed(1_000.0, 1_000.0 + took_seconds, shards)
    due_at = schedule.due_at(wanted=False, on_duty=on_duty, workers=workers)
    assert due_at == pytest.approx(1_000 + seconds)


def test_a_listing_that_is_waited_for_is_repeated_soon_then_less_often() -> None:
    schedule = ListingSchedule()
    pauses = []
    for at in range(0, 70, 10):
        schedule.listed(float(at), at + 0.1, 4)
        pauses.append(schedule.due_at(wanted=True, on_duty=False, workers=9) - at)
        schedule.wanted(wanted=True)
    assert pauses == [1, 2, 4, 8, 10, 10, 10]
    schedule.wanted(wanted=False)
    assert schedule.due_at(wanted=True, on_duty=False, workers=9) - at == 1
