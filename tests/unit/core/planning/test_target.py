"""When a query that ends is done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardline.core.offsets import Offset, Range
from shardline.core.planning.queries import Place
from shardline.core.planning.state import PlanState, state_after
from shardline.core.planning.target import Target
from shardline.core.planning.tips import Tip
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber, Shard

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
START = Offset(TRIM_HORIZON)


def state(*shards: Shard, committed: Offset = START) -> PlanState:
    return state_after(
        committed,
        shards,
        stream="s",
        created_at=NOON,
        now=NOON,
        retention=timedelta(hours=24),
    )


def tip(*, at_tip: bool, found: bool) -> Tip:
    searched = Tip("a", Place(After(SequenceNumber("1")), NOON))
    searched.at_tip = at_tip
    if found:
        searched.reached = Place(After(SequenceNumber("2")), NOON)
    return searched


def test_the_target_lies_after_everything_that_arrived_by_now() -> None:
    # The service tells whole seconds, rounded down.
    assert Target.at(NOON, ["a", "b"], wants_children=True).until == NOON + timedelta(seconds=1)


def test_it_is_reached_at_the_tip_once_everything_is_delivered() -> None:
    target, begun = Target.at(NOON, ["a", "b"], wants_children=True), state(Shard("a"))
    assert not target.is_reached(begun, {}, once=False)
    assert not target.is_reached(begun, {"a": tip(at_tip=False, found=False)}, once=False)
    assert not target.is_reached(begun, {"a": tip(at_tip=True, found=True)}, once=False)
    assert target.is_reached(begun, {"a": tip(at_tip=True, found=False)}, once=False)


def test_a_single_batch_is_whole_once_everything_is_planned() -> None:
    target, begun = Target.at(NOON, ["a", "b"], wants_children=True), state(Shard("a"))
    assert not target.is_reached(begun, {"a": tip(at_tip=False, found=True)}, once=True)
    assert target.is_reached(begun, {"a": tip(at_tip=True, found=True)}, once=True)
    ended = tip(at_tip=False, found=False)
    ended.reached = Place(SHARD_END, NOON)
    assert target.is_reached(begun, {"a": ended}, once=True)
    assert not target.is_reached(begun, {"a": ended}, once=False)


def test_a_shard_that_was_listed_much_later_holds_nothing_that_counts() -> None:
    first = Target.at(NOON, ["a"], wants_children=True)
    both, done = state(Shard("a"), Shard("b")), {"a": tip(at_tip=True, found=False)}
    assert first.is_reached(both, done, once=False)
    seconds = timedelta(seconds=1)
    assert not first.joined(["b"], NOON + 5 * seconds).is_reached(both, done, once=False)
    assert first.joined(["b"], NOON + 60 * seconds).is_reached(both, done, once=False)


@pytest.mark.case("L-21")
def test_it_is_not_reached_while_the_children_of_a_shard_that_ended_are_not_listed() -> None:
    committed = Offset(TRIM_HORIZON, NOON, {"a": Range(TRIM_HORIZON, SHARD_END, NOON)})
    parent = Shard("a", last=SequenceNumber("9"))
    child = Shard("b", ("a",))
    target = Target.at(NOON, ["a", "b"], wants_children=True)
    assert not target.is_reached(state(parent, committed=committed), {}, once=False)
    assert target.is_reached(state(parent, committed=committed), {}, once=True)
    family = state(parent, child, committed=committed)
    assert target.is_reached(family, {"b": tip(at_tip=True, found=False)}, once=False)
    # A table whose stream was switched off has shards that ended, and no children.
    off = Target.at(NOON, ["a", "b"], wants_children=False)
    assert off.is_reached(state(parent, committed=committed), {}, once=False)
