"""Short names of shards and workers."""

from __future__ import annotations

from shardline.observation.names import shard_list, short_shard_id


def test_shard_ids_are_shortened_to_what_differs() -> None:
    assert short_shard_id("shardId-000000000012") == "…012"
    assert short_shard_id("shardId-000000123456") == "…123456"
    assert short_shard_id("shardId-00000001414576573621-f55eea83") == "…f55eea83"
    assert short_shard_id("odd") == "odd"
    assert shard_list(["a", "b"]) == "a, b"
