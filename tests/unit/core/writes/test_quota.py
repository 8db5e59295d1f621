"""The quota of a shard: a writer takes all of it, and is refused hardly ever."""

from __future__ import annotations

import pytest

from shardline.core.writes.quota import ShardQuota
from shardline.local.limits import Limits
from shardline.local.refusals import Refusal

RECORD_BYTES = 500


def write(limits: Limits, seconds: float, writers: int = 1, size: int = RECORD_BYTES) -> list[int]:
    """Write as fast as the quotas allow; return how many records were accepted and refused."""
    quotas = [ShardQuota() for _ in range(writers)]
    now, accepted, refused = 0.0, 0, 0
    while now < seconds:
        for place, quota in enumerate(quotas):
            sent = 0
            while sent < 500 and quota.opens_at() <= now and quota.spend(size, now):
                sent += 1
            taken = 0
            for _ in range(sent):
                try:
                    limits.count_write("shard", size, round(now * 1000))
                    taken += 1
                except Refusal:
                    continue
            accepted, refused = accepted + taken, refused + sent - taken
            if taken < sent:
                quota.refused(now + 0.005, (sent - taken) / sent, spread=place / writers)
            elif sent:
                quota.accepted(now + 0.005)
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
    assert quota.opens_at() == pytest.approx(1.0, abs=0.1)
    assert quota.spend(3 * 1024 * 1024, quota.opens_at() + 0.05)
    assert not quota.spend(1, 2.0)


def test_refusals_of_whole_calls_are_met_with_longer_pauses_up_to_a_second() -> None:
    quota, now = ShardQuota(), 0.0
    pauses = []
    for _ in range(15):
        quota.refused(now)
        pauses.append(quota.opens_at() - now)
        now = quota.opens_at()
    assert pauses[0] < 0.2
    assert 0.9 < pauses[-1] <= 1.1
