"""One message of a kind in each period."""

from __future__ import annotations

from shardline.services.log_limits import LogLimit


def test_one_message_of_a_kind_passes_in_each_period_and_the_others_are_counted() -> None:
    limit = LogLimit(period_seconds=60)
    assert [limit.admit("a", now) for now in (0, 1, 59, 60, 61, 200)] == [0, None, None, 2, None, 1]
    assert limit.admit("b", 61) == 0


def test_kinds_that_are_over_are_forgotten_and_those_of_this_minute_are_not() -> None:
    limit = LogLimit(period_seconds=60)
    for second in range(10_000):
        assert limit.admit(f"shard-{second}", second) == 0
    assert len(limit._logged) < 500
    assert limit.admit("shard-9999", 10_000) is None
