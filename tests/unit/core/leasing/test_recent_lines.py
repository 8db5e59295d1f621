"""What a `LeaseState` handled replays to the same state; its last lines are kept."""

from __future__ import annotations

from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.leasing.events import Event
from shardline.core.leasing.recent_lines import RecentLines
from shardline.core.leasing.state import LeaseState
from tests.unit.leases.stage import SPACE, Stage, after

if TYPE_CHECKING:
    from shardline.core.leasing.instructions import Instruction


def test_events_replay_to_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    handle, handled = LeaseState.handle, dict[str, list[tuple[Event, float]]]()

    def recorded(state: LeaseState, event: Event, now: float) -> list[Instruction]:
        handled.setdefault(state.owner, []).append((event, now))
        return handle(state, event, now)

    monkeypatch.setattr(LeaseState, "handle", recorded)
    stage = Stage(shards=5, checkpoint_seconds=2.0)
    first, second = stage.worker("a"), stage.worker("b")
    for second_of_time in range(40):
        stage.let_pass(1)
        for worker in (first, second):
            for shard_id, lease in worker.held().items():
                if not lease.finishing:
                    worker.checkpoint(shard_id, lease.epoch, after(second_of_time))
        if second_of_time == 20:
            stage.listing.split("s0", "c1", "c2")
            owner = first if "s0" in first.held() else second
            owner.complete("s0", owner.held()["s0"].epoch)
        if second_of_time == 30:
            stage.now += 20  # both lapse
    for worker in (first, second):
        again = LeaseState(*SPACE, worker.owner, times=stage.times)
        instructions = [handle(again, event, now) for event, now in handled[worker.owner]]
        assert any(instructions)
        assert _contents(again) == _contents(worker.state)
        assert again.held(stage.now) == worker.state.held(stage.now)


def test_lines_are_those_of_one_shard_if_it_is_named() -> None:
    log = RecentLines("a/1")
    log.write(1.0, "take s0")
    log.write(2.0, "take s1")
    assert log.lines("s1") == "     2.00 a/1: take s1"
    assert len(log.lines().splitlines()) == 2


@pytest.mark.parametrize("name", ["ledger", "peers", "holdings"])
def test_no_part_of_the_state_has_two_dozen_attributes(name: str) -> None:
    state = LeaseState(*SPACE, "a/1")
    assert len(vars(getattr(state, name))) <= 12
    assert len(vars(state)) <= 20


def _contents(value: Any) -> Any:
    """Return everything that an object holds, as plain values that compare."""
    if isinstance(value, dict):
        return {key: _contents(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return frozenset(value)
    if isinstance(value, (list, tuple, deque)):
        return [_contents(item) for item in value]
    if isinstance(value, (str, int, float, bytes, type(None), Enum)):
        return value
    if is_dataclass(value):
        return {field.name: _contents(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "__dict__") and type(value).__module__.startswith("shardline"):
        return {name: _contents(item) for name, item in vars(value).items()}
    return value
