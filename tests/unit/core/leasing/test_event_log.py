"""The log of events: bounded, and as long as it is whole it replays to the same state."""

from __future__ import annotations

from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from shardline.core.leasing.event_log import EventLog
from shardline.core.leasing.events import RowsScanned, TimePassed
from shardline.core.leasing.rows import LeaseRow
from shardline.core.leasing.state import LeaseState
from tests.unit.leases.stage import BIRTH, SPACE, Stage, after


def test_a_log_replays_to_the_same_state() -> None:
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
        log = worker.state.log
        assert log.complete
        again = LeaseState(*SPACE, worker.owner, times=stage.times)
        instructions = [again.handle(event, now) for event, now, _ in log.entries()]
        assert any(instructions)
        assert _contents(again) == _contents(worker.state)
        assert again.held(stage.now) == worker.state.held(stage.now)


def test_a_log_is_bounded_by_what_its_events_hold() -> None:
    log = EventLog("a/1")
    page = RowsScanned(tuple(LeaseRow(*SPACE, f"s{i}", BIRTH) for i in range(1_000)))
    for second in range(100):
        log.add(page, float(second))
    assert len(log.entries()) < 25
    assert not log.complete
    log.add(TimePassed(), 100.0)
    assert log.entries()[-1].event == TimePassed()


def test_lines_are_those_of_one_shard_if_it_is_named() -> None:
    log = EventLog("a/1")
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
