"""The planner: events go in, instructions and plans come out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.gaps import Evidence
from shardline.core.offsets import Offset, Range
from shardline.core.planning.events import (
    Asked,
    Check,
    Checked,
    Describe,
    Described,
    Event,
    Instruction,
    List,
    Listed,
    Pinned,
    Refused,
    Woken,
)
from shardline.core.planning.limits import Settings
from shardline.core.planning.planner import Planner
from shardline.core.planning.queries import Answer, Kind, Place, Query
from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard
from shardline.errors import GapError, ShardlineError

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
BORN = NOON - timedelta(hours=1)
WHOLE = HashRange(0, HASH_SPACE_END)
PARENT = Shard("a", (), WHOLE, SequenceNumber("1"))
CLOSED = replace(PARENT, last=SequenceNumber("9"))
CHILD = Shard("b", ("a",), WHOLE, SequenceNumber("10"))
START = Offset(TRIM_HORIZON)
WAITED = 10.0
"""When the first batch waits for records no longer."""
DESCRIBED = Described("s", "arn:s", BORN, timedelta(hours=24), NOON)


def place(number: int) -> After:
    return After(SequenceNumber(str(number)))


def planner(
    *listed: Shard, committed: Offset = START, fails: bool = True
) -> tuple[Planner, list[Instruction]]:
    """Return a planner that was asked for a batch, and what it wants after a listing."""
    made = Planner(Settings(finds_times=True, fail_on_data_loss=fails))
    assert set(made.handle(Asked(committed, 1000), 0.0)) == {List(), Describe()}
    assert made.offer(0.0) is None
    assert made.waits(0.0)
    made.handle(DESCRIBED, 0.0)
    return made, list(made.handle(Listed(listed), 0.0))


def records(query: Query, *numbers: int) -> Answer:
    at = NOON - timedelta(seconds=1)
    return Answer(
        query,
        NOON,
        rows=len(numbers),
        first=After(SequenceNumber(str(numbers[0])), -1),
        last=place(numbers[-1]),
        first_at=at,
        last_at=at,
        behind_ms=0,
        records="inline",
    )


def committed_start(made: Planner) -> Offset:
    """Commit the first batch, which only writes down the start, and ask for the next."""
    first = made.offer(WAITED)
    assert first is not None
    made.handle(Asked(first, 1000), WAITED)
    return first


def test_the_first_batch_only_writes_down_where_the_query_starts() -> None:
    made, _ = planner(PARENT)
    first = made.offer(WAITED)
    assert first is not None
    assert first.created_at == BORN
    assert first.ranges == {"a": Range(TRIM_HORIZON, TRIM_HORIZON, BORN)}


def test_a_plan_ends_at_a_record_that_was_seen_and_carries_it() -> None:
    made, (query,) = planner(PARENT)
    assert isinstance(query, Query)
    committed_start(made)
    assert made.offer(WAITED) is None
    made.handle(records(query, 3, 4), WAITED)
    planned = made.offer(WAITED)
    assert planned is not None
    assert planned.ranges["a"].after == After(SequenceNumber("3"), -1)
    assert planned.ranges["a"].upto == place(4)
    assert made.taken["a"].inline == ("inline",)


@pytest.mark.req("O-22")
def test_the_batch_that_writes_down_what_latest_means_holds_no_records() -> None:
    other = Shard("b", (), WHOLE, SequenceNumber("10"))
    made, _ = planner(PARENT, other, committed=Offset(LATEST))
    (query,) = (i for i in made.handle(Pinned("a", Place(place(3), NOON)), 0.0) if i != List())
    assert isinstance(query, Query)
    made.handle(records(query, 4), 0.0)  # before it is known where the other shard is pinned
    assert made.offer(WAITED) is None
    made.handle(Pinned("b", Place(place(12), NOON)), WAITED)
    first = made.offer(WAITED)
    assert first is not None
    assert all(item.empty for item in first.ranges.values())
    made.handle(Asked(first, 1000), WAITED)
    assert made.offer(2 * WAITED) is None, "for a moment the other shard is waited for"
    second = made.offer(3 * WAITED)
    assert second is not None
    assert second.ranges["a"].upto == place(4)


def test_who_asks_twice_gets_the_same_plan() -> None:
    made, (query,) = planner(PARENT)
    assert isinstance(query, Query)
    first = committed_start(made)
    made.handle(records(query, 3), WAITED)
    planned = made.offer(WAITED)
    for instruction in made.handle(Asked(first, 1000), WAITED + 0.5):
        if isinstance(instruction, Query):
            made.handle(records(instruction, 5), WAITED + 0.5)
    assert planned is not None
    assert made.offer(WAITED + 0.5) == planned


@pytest.mark.req("O-03")
def test_a_child_is_not_asked_about_before_its_parents_end_is_committed() -> None:
    made, (query,) = planner(CLOSED, CHILD)
    assert isinstance(query, Query)
    assert query.shard_id == "a"
    first = committed_start(made)
    asked = made.handle(replace(records(query, 3), behind_ms=None, ended=True), WAITED)
    assert not [each for each in asked if isinstance(each, Query)]
    planned = made.offer(WAITED)
    assert planned is not None
    assert planned.ranges["a"].upto == SHARD_END
    assert not made.handle(Asked(first, 1000), WAITED + 0.1), "it is planned, and not committed"
    (child,) = made.handle(Asked(planned, 1000), WAITED + 0.2)
    assert isinstance(child, Query)
    assert (child.shard_id, child.after) == ("b", TRIM_HORIZON)


def test_a_prepared_plan_is_dropped_if_another_offset_was_committed() -> None:
    made, (query,) = planner(PARENT)
    assert isinstance(query, Query)
    first = committed_start(made)
    made.handle(records(query, 3), WAITED)
    assert made.offer(WAITED) is not None
    other = replace(first, ranges={"a": Range(place(7), place(7), NOON)})
    (again,) = (i for i in made.handle(Asked(other, 1000), WAITED + 0.5) if isinstance(i, Query))
    assert again.after == place(7)
    assert made.offer(WAITED + 0.5) is None


@pytest.mark.case("L-18")
def test_an_offset_of_a_stream_that_was_made_again_is_refused() -> None:
    made, _ = planner(PARENT, committed=Offset(TRIM_HORIZON, BORN - timedelta(days=1)))
    with pytest.raises(ShardlineError, match="made again"):
        made.offer(0.0)


@pytest.mark.case("X-11")
def test_a_young_shard_that_is_not_found_is_asked_about_again() -> None:
    made, (query,) = planner(PARENT)
    assert isinstance(query, Query)
    committed_start(made)
    made.handle(Refused(query, Evidence.GONE), WAITED)
    assert made.handle(Listed((PARENT,)), WAITED + 0.6) == (query,)
    assert made.offer(WAITED + 0.6) is None


@pytest.mark.req("K-02")
def test_an_old_place_whose_record_is_not_kept_is_a_gap() -> None:
    old = NOON - timedelta(hours=25)
    committed = Offset(TRIM_HORIZON, BORN, {"a": Range(place(3), place(3), old)}, stream="arn:s")
    for evidence, is_gap in ((Evidence.KEPT, False), (Evidence.TRIMMED, True)):
        made, wanted = planner(PARENT, committed=committed)
        assert wanted == [Check("a", place(3))]
        made.handle(Checked("a", place(3), evidence), 0.0)
        if is_gap:
            with pytest.raises(GapError, match="gap in a after 3"):
                made.offer(0.0)
        else:
            assert made.offer(0.0) is None


@pytest.mark.req("K-02")
@pytest.mark.case("X-07")
def test_a_shard_of_unseen_parents_waits_for_what_became_of_known_shards() -> None:
    old = NOON - timedelta(hours=25)
    committed = Offset(TRIM_HORIZON, BORN, {"a": Range(place(3), place(3), old)}, stream="arn:s")
    grandchild = Shard("c", ("b",), WHOLE, SequenceNumber("20"))  # b came and went unseen
    made, wanted = planner(grandchild, committed=committed, fails=False)
    assert set(wanted) == {Check("a", None), Check("b", None)}
    made.handle(Checked("b", None, Evidence.GONE), 0.0)
    assert not made.handle(Listed((grandchild,)), 0.0)
    made.handle(Checked("a", None, Evidence.GONE), 0.0)
    (query,) = made.handle(Listed((grandchild,)), 0.0)
    assert isinstance(query, Query)
    assert query.shard_id == "c"
    made.handle(records(query, 21, 22), 0.0)
    offered = made.offer(WAITED)
    assert offered is not None
    assert {"a", "b"} <= {gap.shard_id for gap in offered.gaps}


@pytest.mark.case("X-11")
def test_a_listing_that_shows_a_parent_does_not_prove_that_its_child_expired() -> None:
    old = NOON - timedelta(hours=25)
    ranges = {"a": Range(SHARD_END, SHARD_END, old), "b": Range(place(12), place(12), old)}
    made, wanted = planner(
        CLOSED, CHILD, committed=Offset(TRIM_HORIZON, BORN, ranges, stream="arn:s")
    )
    assert wanted == [Check("b", place(12))]
    (query,) = made.handle(Checked("b", place(12), Evidence.KEPT), 0.0)
    assert isinstance(query, Query)
    made.handle(Refused(query, Evidence.GONE), 0.0)
    assert Check("b", None) in made.handle(Listed((PARENT,)), 5.0)
    made.handle(Checked("b", None, Evidence.GONE), 5.0)
    assert made.offer(5.0) is None, "a machine that is behind was believed"
    assert made.wake_at is not None
    assert List() in made.handle(Woken(), made.wake_at)


def test_a_listing_is_made_every_few_seconds_and_a_late_answer_moves_nothing() -> None:
    made, (query,) = planner(PARENT)
    assert isinstance(query, Query)
    assert query.kind is Kind.FORWARD
    assert made.wake_at is not None
    assert 0.0 < made.wake_at <= 5.0
    committed_start(made)
    made.handle(records(query, 3), WAITED)
    made.handle(records(query, 3), WAITED)  # of a search that has moved on
    planned = made.offer(WAITED)
    assert planned is not None
    assert planned.ranges["a"].upto == place(3)


def test_the_log_of_events_replays() -> None:
    made, (query,) = planner(CLOSED, CHILD)
    assert isinstance(query, Query)
    committed_start(made)
    made.handle(replace(records(query, 3), behind_ms=None, ended=True), WAITED)
    log: list[tuple[float, Event]] = list(made.events)
    again = Planner(made.settings)
    offers = []
    for now, event in log:
        again.handle(event, now)
        offers.append(again.offer(now))
    assert offers[-1] == made.offer(WAITED)
    assert offers[-1] is not None


def test_a_gap_after_a_planned_batch_does_not_move_its_end_back() -> None:
    begun = Offset(TRIM_HORIZON, BORN, {"a": Range(place(2), place(2), NOON)}, stream="arn:s")
    made, (query,) = planner(PARENT, committed=begun, fails=False)
    assert isinstance(query, Query)
    made.handle(records(query, 3, 4), 0.0)
    planned = made.offer(0.0)
    assert planned is not None
    later = 25 * 3600.0
    made.handle(Refused(replace(query, after=place(4)), Evidence.TRIMMED), later)
    made.handle(Asked(planned, 1000), later)
    following = made.offer(later)
    assert following is not None
    assert [gap.after for gap in following.gaps] == [place(4)]
    assert following.ranges["a"].upto == TRIM_HORIZON
