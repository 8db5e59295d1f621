"""The service's time from the answers, whatever one of them says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.planning.service_clock import ServiceClock

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.case("X-31")
def test_one_wrong_answer_does_not_move_the_clock() -> None:
    clock = ServiceClock()
    for second in range(3):
        clock.told(NOON + timedelta(seconds=second), float(second))
    clock.told(NOON + timedelta(days=400), 3.0)
    assert abs(clock.time(3.0) - NOON) <= timedelta(seconds=3)


def test_the_clock_counts_on_between_answers_and_follows_a_change() -> None:
    clock = ServiceClock()
    clock.told(NOON, 0.0)
    assert clock.time(2.5) == NOON + timedelta(seconds=2.5)
    for second in range(5):
        clock.told(NOON + timedelta(hours=1, seconds=second), float(second))
    assert clock.time(4.0) >= NOON + timedelta(hours=1)
