"""Where a committed offset and a listing leave a query."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.gaps import Gap
from shardline.core.offsets import Mark, Offset, Range
from shardline.core.planning.queries import Place
from shardline.core.planning.state import (
    PlanState,
    holds_news,
    is_stale,
    next_offset,
    state_after,
    with_gap,
)
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
BORN = NOON - timedelta(days=10)
DAY = timedelta(hours=24)
RECORD = After(SequenceNumber("7"))
WHOLE = HashRange(0, HASH_SPACE_END)
PARENT = Shard("a", (), WHOLE, SequenceNumber("1"), SequenceNumber("9"))
CHILD = Shard("b", ("a",), WHOLE, SequenceNumber("10"))


def offset(
    ranges: dict[str, Range], drained: dict[str, Mark] | None = None, gaps: tuple[Gap, ...] = ()
) -> Offset:
    return Offset(TRIM_HORIZON, BORN, ranges, drained or {}, gaps, "s")


def after(committed: Offset, *listed: Shard, now: datetime = NOON) -> PlanState:
    return state_after(committed, listed, stream="s", created_at=BORN, now=now, retention=DAY)


@pytest.mark.req("O-03")
def test_a_child_is_readable_once_the_batch_that_ends_its_parent_is_committed() -> None:
    hour = timedelta(hours=1)
    unread = offset({"a": Range(RECORD, RECORD, NOON - hour)})
    assert [shard.id for shard in after(unread, PARENT, CHILD).lineage.readable] == ["a"]
    ended = offset({"a": Range(RECORD, SHARD_END, NOON - hour)})
    state = after(ended, PARENT, CHILD)
    assert [shard.id for shard in state.lineage.readable] == ["b"]
    assert state.drained.keys() == {"a"}
    assert state.places == {"b": Place(TRIM_HORIZON, NOON - hour)}


@pytest.mark.req("O-03", "K-02")
@pytest.mark.case("X-07")
def test_a_child_of_a_shard_that_is_gone_waits_for_all_that_may_be_its_ancestors() -> None:
    """No listing says any more whose child "b" was: "a" may have records that come first."""
    child = Shard("c", ("b",), WHOLE, SequenceNumber("20"))
    gone = {"b": Mark(NOON - DAY, NOON)}
    places = {"a": Range(RECORD, RECORD, NOON - DAY), "c": Range(TRIM_HORIZON, TRIM_HORIZON, NOON)}
    assert after(offset(places, gone), child).readable == ()
    begun = places | {"c": Range(TRIM_HORIZON, RECORD, NOON)}
    assert after(offset(begun, gone), child).readable == ("c",)
    del places["a"]
    assert after(offset(places, gone), child).readable == ("c",)


@pytest.mark.case("X-15")
def test_a_child_that_waits_is_as_young_as_its_parent() -> None:
    known = offset({"a": Range(RECORD, RECORD, NOON), "b": Range(TRIM_HORIZON, TRIM_HORIZON, BORN)})
    assert after(known, PARENT, CHILD).places["b"].as_of == NOON


@pytest.mark.case("X-01")
def test_a_shard_has_an_as_of_from_the_moment_it_is_known() -> None:
    first = after(Offset(TRIM_HORIZON), CHILD)
    assert NOON - DAY <= first.places["b"].as_of <= NOON - DAY + timedelta(hours=1)
    # Later, it is no older than what was read of the others, and no older than the stream.
    read = offset({"a": Range(RECORD, RECORD, NOON - timedelta(hours=2))})
    other = Shard("c", (), WHOLE, SequenceNumber("10"))
    assert after(read, other).places["c"].as_of == NOON - timedelta(hours=2)
    young = replace(read, ranges={}, created_at=NOON)
    state = state_after(young, [other], stream="s", created_at=NOON, now=NOON, retention=DAY)
    assert state.places["c"].as_of == NOON


def test_a_shard_that_was_begun_waits_for_no_parent_that_is_not_listed() -> None:
    begun = offset({"b": Range(RECORD, RECORD, NOON)})
    state = after(begun, CHILD)
    assert [shard.id for shard in state.lineage.readable] == ["b"]
    assert not state.lineage.undiscovered
    waits = offset({"b": Range(TRIM_HORIZON, TRIM_HORIZON, NOON)})
    assert list(after(waits, CHILD).lineage.undiscovered) == ["a"]


@pytest.mark.case("Y-08")
def test_the_mark_of_a_drained_shard_goes_when_nothing_needs_it() -> None:
    grandchild = Shard("c", ("b",), WHOLE, SequenceNumber("20"))
    drained = {"a": Mark(NOON, NOON)}
    committed = offset({"c": Range(RECORD, RECORD, NOON)}, drained)
    # Not listed any more: kept for the retention and an hour, since a listing may be stale.
    for hours, kept in ((24, True), (26, False)):
        state = after(committed, grandchild, now=NOON + timedelta(hours=hours))
        assert ("a" in state.drained) is kept
    # Listed: kept, and seen now.
    later = NOON + timedelta(hours=26)
    assert after(committed, PARENT, grandchild, now=later).drained["a"].listed_at == later


def test_after_a_gap_what_is_left_is_read_from_the_horizon() -> None:
    state = after(offset({"b": Range(RECORD, RECORD, NOON - 2 * DAY)}), CHILD)
    gap = Gap("b", RECORD, NOON - 2 * DAY, NOON - DAY, "aged")
    left = with_gap(state, gap, gone=False, now=NOON)
    assert left.places["b"] == Place(TRIM_HORIZON, NOON - DAY)
    gone = with_gap(state, gap, gone=True, now=NOON)
    assert "b" not in gone.places
    assert gone.drained["b"] == Mark(gap.since, NOON)
    moved = with_gap(state, replace(gap, after=TRIM_HORIZON), gone=True, now=NOON)
    assert moved.places == state.places, "a gap of another place moves nothing"
    assert moved.gaps == (replace(gap, after=TRIM_HORIZON),)


def test_the_last_hundred_gaps_are_kept() -> None:
    state = after(offset({}), CHILD)
    for number in range(150):
        gap = Gap(f"shard-{number}", TRIM_HORIZON, BORN, NOON, "aged")
        state = with_gap(state, gap, gone=False, now=NOON)
    assert [gap.shard_id for gap in state.gaps] == [f"shard-{n}" for n in range(50, 150)]


@pytest.mark.case("X-12")
def test_a_time_that_was_found_in_a_parent_is_not_looked_for_in_its_child() -> None:
    start = AtTime(NOON - timedelta(hours=2))
    for found, position in ((NOON, TRIM_HORIZON), (start.time - timedelta(hours=1), start)):
        committed = Offset(
            start,
            BORN,
            {"a": Range(start, SHARD_END, found), "b": Range(start, start, start.time)},
        )
        assert after(committed, PARENT, CHILD).places["b"].position == position


def test_a_plan_names_every_place_that_is_not_in_the_batch() -> None:
    state = after(offset({"a": Range(RECORD, RECORD, NOON)}), PARENT, CHILD)
    read = Range(RECORD, After(SequenceNumber("8")), NOON)
    planned = next_offset(state, {"a": read})
    assert planned.ranges == {"a": read, "b": Range(TRIM_HORIZON, TRIM_HORIZON, NOON)}
    assert planned.stream == "s"


def test_a_plan_is_news_if_it_holds_records_or_what_a_restart_would_not_know() -> None:
    idle = offset({"b": Range(RECORD, RECORD, NOON)})
    assert not holds_news(idle, idle)
    assert holds_news(Offset(TRIM_HORIZON), idle)
    assert holds_news(idle, offset({"b": Range(RECORD, SHARD_END, NOON)}))
    assert holds_news(idle, offset({**idle.ranges, "c": Range(RECORD, RECORD, NOON)}))
    assert holds_news(idle, replace(idle, gaps=(Gap("b", RECORD, BORN, NOON, "aged"),)))
    ended = offset({"a": Range(RECORD, SHARD_END, NOON), **idle.ranges})
    assert not holds_news(ended, idle), "a shard that ended is in no later plan"


def test_an_idle_query_writes_down_now_and_then_that_nothing_was_there() -> None:
    hour = timedelta(hours=1)
    before = offset({"b": Range(RECORD, RECORD, NOON)})
    for passed, stale in ((hour, False), (hour + timedelta(seconds=1), True)):
        planned = offset({"b": Range(RECORD, RECORD, NOON + passed)})
        assert is_stale(before, planned, after=hour) is stale
