"""The limits of the embedded service."""

from __future__ import annotations

import pytest

from shardline.local.limits import Limits, ShardRates
from shardline.local.refusals import Refusal


def test_limits_that_are_switched_on_again_begin_with_full_buckets() -> None:
    limits = Limits(enabled=True)
    limits.count_bytes_read("shard", 10_000_000, 0)
    limits.enabled = True
    with pytest.raises(Refusal):
        limits.count_read("shard", 1_000)
    limits.enabled = False
    limits.count_read("shard", 1_000)
    limits.enabled = True
    limits.count_read("shard", 1_000)


def test_writes_of_a_shard_are_limited_by_records_and_by_bytes() -> None:
    limits = Limits(enabled=True, rates=ShardRates(written_records=3, written_bytes=100))
    for _ in range(3):
        limits.count_write("few", 1, 0)
    limits.count_write("large", 100, 0)
    for shard in ("few", "large"):
        with pytest.raises(Refusal):
            limits.count_write(shard, 1, 0)
    limits.count_write("few", 1, 400)
    limits.count_write("large", 40, 400)
    for shard in ("few", "large"):
        with pytest.raises(Refusal):
            limits.count_write(shard, 1, 400)
    limits.rates = ShardRates(written_records=5, written_bytes=100)
    limits.count_write("few", 1, 400)
    limits.enabled = False
    limits.count_write("few", 101, 400)
    limits.enabled = True
    limits.count_write("few", 100, 400)


def test_records_that_do_not_fit_together_are_not_counted_at_all() -> None:
    limits = Limits(enabled=True, rates=ShardRates(written_records=3, written_bytes=100))
    assert not limits.count_writes("shard", 4, 40, 0)
    assert not limits.count_writes("shard", 2, 101, 0)
    assert limits.count_writes("shard", 3, 100, 0)
    assert not limits.count_writes("shard", 1, 1, 0)
