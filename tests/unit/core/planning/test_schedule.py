"""One call about a shard at a time, each when it is due."""

from __future__ import annotations

from shardline.core.planning.schedule import Schedule
from shardline.core.planning.turns import Turns


def test_one_call_about_a_shard_at_a_time() -> None:
    schedule = Schedule()
    assert schedule.begin("a")
    assert not schedule.begin("a")
    assert schedule.of(["a", "b"]) == ["a"]
    schedule.end("a", 1.0)
    assert schedule.begin("a")


def test_a_call_is_due_so_long_after_the_last_answer() -> None:
    schedule = Schedule()
    schedule.end("a", 10.0)
    assert schedule.postpone("a", 0.5, 10.1)
    assert schedule.next_due == 10.5
    assert schedule.take_due(10.4) == []
    assert schedule.take_due(10.5) == ["a"]
    assert not schedule.postpone("a", 0.5, 10.5)


def test_shards_without_a_turn_for_longest_come_first() -> None:
    turns = Turns()
    shares = dict.fromkeys(("a", "b", "c"), 1_000)
    first = turns.choose(shares, 2_000)
    assert first == ["a", "b"]
    turns.took(first)
    assert turns.choose(shares, 2_000) == ["c", "a"]
    assert turns.choose(shares, None) == ["c", "a", "b"]
