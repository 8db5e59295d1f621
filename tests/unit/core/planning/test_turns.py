"""Shards have their turns in a batch that cannot hold everything."""

from __future__ import annotations

from shardline.core.planning.turns import Turns


def test_shards_without_a_turn_for_longest_come_first() -> None:
    turns = Turns()
    shares = dict.fromkeys(("a", "b", "c"), 1_000)
    first = turns.choose(shares, 2_000)
    assert first == ["a", "b"]
    turns.took(first)
    assert turns.choose(shares, 2_000) == ["c", "a"]
    assert turns.choose(shares, None) == ["c", "a", "b"]


def test_one_shard_is_always_taken_whatever_its_share() -> None:
    assert Turns().choose({"a": 5_000, "b": 10}, 1_000) == ["a"]
