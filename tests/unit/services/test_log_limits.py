"""One message of a kind in each period."""

from __future__ import annotations

from shardline.services.log_limits import LogLimit


def test_one_message_of_a_kind_passes_in_each_period_and_the_others_are_counted() -> None:
    limit = LogLimit(period_seconds=60)
    assert [limit.admit("a", now) for now in (0, 1, 59, 60, 61, 200)] == [0, None, None, 2, None, 1]
    assert limit.admit("b", 61) == 0
