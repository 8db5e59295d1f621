"""The pace of one shard's reader: it takes the whole quota, and never more."""

from __future__ import annotations

import pytest

from shardline.local.limits import Limits
from shardline.local.refusals import Refusal
from shardline.services.pace import MIB, UNPACED, Quota, ShardPace

BACKLOG_BYTES = 60 * MIB


def read_backlog(
    pace: ShardPace, record_bytes: int, behind_ms: int, debt_bytes: int = 0
) -> tuple[float, int]:
    """Read a backlog from the service's own limits; return the seconds taken and the refusals.

    `debt_bytes` is what a reader before it took just now.
    """
    limits, now, left, refusals = Limits(enabled=True), 0.0, BACKLOG_BYTES, 0
    limits.count_bytes_read("shard", debt_bytes, 0)
    while left > 0:
        now += pace.wait_seconds(now)
        records = pace.page_records(now)
        pace.sent(now)
        try:
            limits.count_read("shard", round(now * 1000))
        except Refusal:
            refusals += 1
            pace.refused(now)
            continue
        size = min(left, records * record_bytes, 10 * MIB)
        limits.count_bytes_read("shard", size, round(now * 1000))
        now += 0.005
        pace.received(now, size // record_bytes, size, behind_ms)
        left -= size
    return now, refusals


@pytest.mark.req("K-01")
@pytest.mark.parametrize("record_bytes", [100, 1_000, 10_000])
@pytest.mark.parametrize("behind_ms", [1_000, 3_600_000])
def test_a_lone_reader_takes_the_whole_quota_and_is_never_refused(
    record_bytes: int, behind_ms: int
) -> None:
    seconds, refusals = read_backlog(ShardPace(), record_bytes, behind_ms)
    assert refusals == 0
    by_bytes = BACKLOG_BYTES / (2 * MIB)
    by_calls = BACKLOG_BYTES / (10_000 * record_bytes) / 5
    assert seconds < 1.06 * max(by_bytes, by_calls)


@pytest.mark.req("K-01")
def test_near_the_tip_pages_leave_room_for_other_readers() -> None:
    pace = ShardPace()
    assert pace.page_records(0.0) == 10_000
    pace.received(0.0, 10, 10_000, behind_ms=500)
    pace.received(1.0, 10, 10_000, behind_ms=500)
    assert 900 <= pace.page_records(2.0) <= 1_100


def test_a_full_page_says_that_there_is_more_whatever_its_times_say() -> None:
    pace = ShardPace()
    pace.received(0.0, 10, 10_000, behind_ms=500)
    pace.sent(1.0, 1_000)
    pace.received(1.0, 1_000, 1_000_000, behind_ms=500)
    assert pace.page_records(2.0) == 10_000
    pace.sent(2.0, 10_000)
    pace.received(2.0, 9_000, 9_000_000, behind_ms=500)
    assert pace.page_records(9.0) < 2_000


def test_one_page_that_is_refused_again_and_again_shows_a_debt_and_no_other_reader() -> None:
    pace = ShardPace()
    pace.received(0.0, 1_000, 1_024_000, behind_ms=3_600_000)
    for now in (1.0, 1.25, 1.75):
        pace.refused(now)
    assert pace.page_records(2.0) == 10_000


def test_a_second_page_that_is_refused_means_other_readers_for_a_minute() -> None:
    pace = ShardPace()
    pace.received(0.0, 1_000, 1_024_000, behind_ms=3_600_000)
    pace.refused(0.0)
    pace.received(0.5, 1_000, 1_024_000, behind_ms=3_600_000)
    assert pace.page_records(0.5) == 10_000
    pace.refused(1.0)
    assert pace.page_records(60.0) < 2_000
    assert pace.page_records(61.0) == 10_000


@pytest.mark.req("K-01")
def test_a_reader_after_another_waits_for_its_debt_and_is_refused_no_more() -> None:
    debt_bytes = 10 * MIB
    seconds, refusals = read_backlog(ShardPace(), 1_000, 3_600_000, debt_bytes)
    assert refusals * 0.25 <= debt_bytes / (2 * MIB)
    assert seconds < 1.03 * (BACKLOG_BYTES + debt_bytes) / (2 * MIB)


def test_a_refusal_before_the_first_page_is_the_debt_of_the_reader_before() -> None:
    pace = ShardPace()
    pace.refused(0.0)
    assert pace.page_records(1.0) == 10_000


def test_refusals_are_met_with_the_time_the_quota_needs_not_with_doubling() -> None:
    pace, now, waits = ShardPace(), 0.0, []
    for _ in range(8):
        pace.refused(now)
        waits.append(pace.wait_seconds(now))
        now += waits[-1]
    assert max(waits) <= 1.0
    pace.sent(now)
    pace.received(now, 0, 0, 0)
    assert pace.wait_seconds(now) < 0.25


def test_an_unpaced_reader_waits_only_after_a_refusal() -> None:
    pace = ShardPace(UNPACED)
    pace.sent(0.0)
    pace.received(0.0, 10_000, 10 * MIB, behind_ms=None)
    assert pace.wait_seconds(0.0) == 0
    pace.refused(0.0)
    assert pace.wait_seconds(0.0) > 0


def test_a_quota_of_its_own_is_kept() -> None:
    pace = ShardPace(Quota(calls_per_second=1, page_records=7))
    assert pace.page_records(0.0) == 7
    pace.sent(0.0)
    assert pace.wait_seconds(0.0) > 1


@pytest.mark.req("K-01")
def test_calls_after_a_pause_follow_each_other_at_once_within_the_quota() -> None:
    pace, limits, now, sent = ShardPace(Quota(burst_calls=5)), Limits(enabled=True), 0.0, []
    while now < 10:
        now += pace.wait_seconds(now)
        pace.sent(now)
        limits.count_read("shard", round(now * 1000))  # raises if there are too many
        sent.append(now)
    assert sent[4] == sent[0]
    assert len(sent) > 10 * 5 * 0.9


def test_what_another_reader_has_told_of_is_waited_for() -> None:
    plan, task = ShardPace(Quota(bytes_per_second=1_000)), ShardPace(Quota(bytes_per_second=1_000))
    plan.received(0.0, 1, 900, behind_ms=0)
    told = plan.take_spent(0.0)
    assert told == 900
    assert plan.take_spent(0.0) == 0, "it is told once"
    task.deduct(0.0, told)
    task.received(0.0, 1, 1_000, behind_ms=0)
    assert task.wait_seconds(0.0) == pytest.approx(0.9)


def test_what_the_shard_gives_anew_is_not_told() -> None:
    pace = ShardPace(Quota(bytes_per_second=1_000))
    pace.received(0.0, 1, 900, behind_ms=0)
    assert pace.take_spent(0.6) == 300


def test_the_lag_of_another_place_is_not_known() -> None:
    pace = ShardPace()
    pace.received(0.0, 1_000, 1_024_000, behind_ms=0)
    assert pace.page_records(1.0) < 2_000
    pace.moved()
    assert pace.page_records(1.0) == 10_000
