"""One call about a shard at a time, each when it is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.planning.queries import Kind, Place, Query
from shardline.core.planning.schedule import POLL_SECONDS, Schedule, query_delay, wait_seconds
from shardline.core.planning.tips import Tip
from shardline.core.positions import After
from shardline.core.shards import SequenceNumber

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


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


def tip(seconds_behind: float = 0.0) -> Tip:
    return Tip("a", Place(After(SequenceNumber("1")), NOON - timedelta(seconds=seconds_behind)))


def query(kind: Kind) -> Query:
    return Query("a", kind, After(SequenceNumber("1")), 100)


def delay(
    tip: Tip, kind: Kind, *, is_read: bool = False, runs: bool = False, shards: int = 1
) -> float:
    return query_delay(
        tip, query(kind), runs=runs or is_read, is_read=is_read, bookmark=False, shards=shards
    )


@pytest.mark.parametrize("kind", [Kind.FORWARD, Kind.TIME])
def test_planning_leaves_the_quota_to_the_task_that_reads_the_shard(kind: Kind) -> None:
    assert delay(tip(60), kind) == 0.0
    assert delay(tip(60), kind, is_read=True) >= 1.0


def test_a_shard_that_is_read_to_its_tip_is_left_to_its_task_for_as_long_as_a_page_costs() -> None:
    idle = tip()
    idle.at_tip = True
    assert delay(idle, Kind.FORWARD, is_read=True) == 5.0
    assert delay(idle, Kind.FORWARD, runs=True) < 5.0


def test_a_shard_at_its_tip_is_polled_less_often_where_there_are_many() -> None:
    idle = tip()
    idle.at_tip = True
    assert delay(idle, Kind.FORWARD) == POLL_SECONDS
    assert delay(idle, Kind.FORWARD, shards=1_000) == 5.0


def test_a_plan_waits_for_the_end_of_a_quiet_backlog_longer_than_for_others() -> None:
    behind = tip(60)
    briefly = wait_seconds(behind, NOON)
    behind.search.nothing_from = NOON
    assert 0 < briefly < wait_seconds(behind, NOON)
    behind.at_tip = True
    assert wait_seconds(behind, NOON) == 0.0
    assert wait_seconds(tip(1), NOON) == 0.0


def test_a_tip_is_read_when_the_batch_is_done_rather_than_while_it_runs() -> None:
    idle = tip()
    idle.at_tip = True
    assert delay(idle, Kind.FORWARD, runs=True) > delay(idle, Kind.FORWARD)


def test_calls_that_are_due_at_about_the_same_time_are_made_together() -> None:
    schedule = Schedule()
    schedule.end("a", 10.0)
    schedule.end("b", 10.02)
    assert schedule.postpone("a", 0.5, 10.1)
    assert schedule.postpone("b", 0.5, 10.1)
    assert schedule.take_due(10.5) == ["a", "b"]
    assert not schedule.postpone("b", 0.5, 10.5)
