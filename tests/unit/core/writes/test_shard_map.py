"""Which shard takes a hash key, by the listing."""

from __future__ import annotations

import pytest

from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard
from shardline.core.writes.shard_map import ShardMap

HALF = 2**127
LOW = Shard("low", hash_range=HashRange(0, HALF - 1))
HIGH = Shard("high", hash_range=HashRange(HALF, HASH_SPACE_END))
CLOSED = Shard("parent", hash_range=HashRange(0, HASH_SPACE_END), last=SequenceNumber("9"))


@pytest.mark.req("S-07")
def test_open_shards_take_the_hash_keys_of_their_ranges() -> None:
    shards = ShardMap()
    assert shards.shard_of(0) is None
    shards.update([HIGH, CLOSED, LOW])
    keys = (0, HALF - 1, HALF, HASH_SPACE_END)
    assert [shards.shard_of(key) for key in keys] == ["low", "low", "high", "high"]


def test_a_hash_key_of_no_listed_shard() -> None:
    shards = ShardMap()
    shards.update([HIGH])
    assert shards.shard_of(1) is None
    shards.update([LOW])
    assert shards.shard_of(HALF) is None


def test_a_new_listing_keeps_what_is_known_of_shards_that_are_still_open() -> None:
    shards = ShardMap()
    shards.update([LOW, HIGH])
    shards.quota_of("low").refused(0.0)
    shards.update([LOW])
    assert shards.quota_of("low").holds
    assert not shards.quota_of("high").holds
