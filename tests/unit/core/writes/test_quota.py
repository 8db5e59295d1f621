"""The quota of a shard: a writer takes all of it, and is refused hardly ever."""

from __future__ import annotations

import random

import pytest

from shardline.core.writes.quota import ShardQuota, Tally
from shardline.local.limits import Limits, exceeded
from shardline.local.refusals import Refusal

RECORD_BYTES = 500


def write(limits: Limits, seconds: float, writers: int = 1, size: int = RECORD_BYTES) -> list[int]:
    """Write as fast as the quotas allow; return how many records were accepted and refused."""
    quotas = [ShardQuota() for _ in range(writers)]
    now, accepted, refused = 0.0, 0, 0
    while now < seconds:
        for place, quota in enumerate(quotas):
            sent = 0
            while sent < 500 and quota.opens_at() <= now:
                if not quota.spend(size, now):
                    quota.close(size, now)
                    break
                sent += 1
            tally = Tally()
            for _ in range(sent):
                try:
                    limits.count_write("shard", size, round(now * 1000))
                    tally.accept(size)
                except Refusal:
                    tally.refuse(size)
            accepted, refused = accepted + tally.accepted, refused + tally.refused
            if sent:
                quota.answered(tally, now + 0.005, spread=place / writers)
        now += 0.01
    return [accepted, refused]


@pytest.mark.req("S-05")
@pytest.mark.parametrize(("size", "a_second"), [(500, 1000), (10_000, 104)])
def test_a_lone_writer_takes_the_whole_quota_and_is_refused_once(size: int, a_second: int) -> None:
    accepted, refused = write(Limits(enabled=True), 20.0, size=size)
    assert accepted >= 0.95 * 20 * a_second
    assert refused <= 20


@pytest.mark.req("S-05")
def test_a_quota_that_is_not_enforced_is_not_kept() -> None:
    accepted, refused = write(Limits(enabled=False), 10.0)
    assert accepted > 100_000
    assert refused == 0


@pytest.mark.req("S-05")
def test_writers_of_one_shard_share_its_quota_without_starving_it() -> None:
    accepted, refused = write(Limits(enabled=True), 30.0, writers=3)
    assert accepted >= 0.9 * 30_000
    assert refused < accepted / 2


def test_a_record_larger_than_a_second_s_bytes_waits_for_a_full_bucket() -> None:
    quota = ShardQuota()
    quota.refused(0.0)
    now = quota.opens_at()
    assert not quota.spend(3 * 1024 * 1024, now)
    quota.close(3 * 1024 * 1024, now)
    assert quota.opens_at() == pytest.approx(1.0, abs=0.1)
    assert quota.spend(3 * 1024 * 1024, quota.opens_at() + 0.05)
    assert not quota.spend(1, 2.0)


@pytest.mark.req("S-05")
def test_records_of_any_size_are_tried_above_a_quota_that_may_not_be_enforced() -> None:
    quota, sent = ShardQuota(), 0
    while quota.spend(40_000, 0.0):
        sent += 40_000
    assert sent > 1024 * 1024
    quota.close(40_000, 0.0)
    quota.accepted(0.1)
    assert quota.opens_at() < 0
    assert quota.spend(40_000, 0.1)


def test_the_last_records_wait_no_longer_than_they_have_to() -> None:
    quota = ShardQuota()
    quota.refused(0.0)
    opened = quota.opens_at()
    assert quota.spend(100, opened)
    while quota.spend(100, opened):
        pass
    quota.close(100, opened, left=7)
    last = quota.opens_at()
    assert last - opened == pytest.approx(0.007, abs=0.001)
    assert all(quota.spend(100, last + 1e-9) for _ in range(7))
    assert not quota.spend(100, last)


@pytest.mark.req("S-05")
def test_few_refusals_at_the_ends_of_calls_become_many_in_a_row() -> None:
    quota, calls = ShardQuota(), 0
    while quota.opens_at() <= 0:
        assert quota.spend(100, 0.0)
        tally = Tally()
        tally.refuse(100)
        quota.answered(tally, 0.0)
        calls += 1
    assert calls == 5


@pytest.mark.req("S-05")
def test_entries_refused_at_random_do_not_slow_down_a_writer() -> None:
    """A third of the entries is refused, and the quota of the shard is enforced beside that."""
    quota, limits, draw = ShardQuota(), Limits(enabled=True), random.Random(1)
    accepted, now = 0, 0.0
    while now < 10.0:
        tally = Tally()
        for _ in range(12):
            if quota.opens_at() > now:
                break
            if not quota.spend(500, now):
                quota.close(500, now)
                break
            try:
                if draw.random() < 1 / 3:
                    raise exceeded("by chance")
                limits.count_write("shard", 500, round(now * 1000))
                tally.accept(500)
            except Refusal:
                tally.refuse(500)
        accepted += tally.accepted
        if tally.accepted or tally.refused:
            quota.answered(tally, now)
        now += 0.005
    assert accepted > 0.75 * 11_000


def test_refusals_of_whole_calls_are_met_with_longer_pauses_up_to_a_second() -> None:
    quota, now = ShardQuota(), 0.0
    pauses = []
    for _ in range(15):
        quota.refused(now)
        pauses.append(quota.opens_at() - now)
        now = quota.opens_at()
    assert pauses[0] < 0.2
    assert 0.9 < pauses[-1] <= 1.1
