"""When a query that ends is done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shardline.core.offsets import Offset
from shardline.core.planning.state import PlanState, state_after
from shardline.core.planning.target import Target
from shardline.core.planning.tips import Place, Tip
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber, Shard

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def state(*shards: Shard) -> PlanState:
    return state_after(
        Offset(TRIM_HORIZON),
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
    assert Target.at(NOON, ["a"]).until == NOON + timedelta(seconds=1)


def test_it_is_reached_at_the_tip_once_everything_is_delivered() -> None:
    target, begun = Target.at(NOON, ["a"]), state(Shard("a"))
    assert not target.is_reached(begun, {}, once=False)
    assert not target.is_reached(begun, {"a": tip(at_tip=False, found=False)}, once=False)
    assert not target.is_reached(begun, {"a": tip(at_tip=True, found=True)}, once=False)
    assert target.is_reached(begun, {"a": tip(at_tip=True, found=False)}, once=False)


def test_a_single_batch_is_whole_once_everything_is_planned() -> None:
    target, begun = Target.at(NOON, ["a"]), state(Shard("a"))
    assert not target.is_reached(begun, {"a": tip(at_tip=False, found=True)}, once=True)
    assert target.is_reached(begun, {"a": tip(at_tip=True, found=True)}, once=True)
    ended = tip(at_tip=False, found=False)
    ended.reached = Place(SHARD_END, NOON)
    assert target.is_reached(begun, {"a": ended}, once=True)
    assert not target.is_reached(begun, {"a": ended}, once=False)


def test_a_shard_that_was_listed_later_holds_nothing_that_counts() -> None:
    target = Target.at(NOON, ["a"])
    both = state(Shard("a"), Shard("b"))
    assert target.is_reached(both, {"a": tip(at_tip=True, found=False)}, once=False)
