"""Fair shares: every worker computes the same ones from the same heartbeats, without a leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Load(NamedTuple):
    """What one worker holds, and the most that it wants."""

    worker: str
    held: int
    capacity: int | None = None

    def room(self, level: int) -> int:
        """Return how many leases it lacks to reach a level."""
        top = level if self.capacity is None else min(level, self.capacity)
        return max(0, top - self.held)


class Level(NamedTuple):
    """How high every worker may be filled: to `level`, and some to one more."""

    level: int
    left_over: int
    """Shards that no worker has room for, because of their capacities."""


def level_of(total: int, loads: Sequence[Load]) -> Level:
    """Return the level at which `total` leases are spread evenly."""
    level, remaining, open_ended = 0, total, len(loads)
    for capacity in sorted(load.capacity for load in loads if load.capacity is not None):
        step = (capacity - level) * open_ended
        if step > remaining:
            break
        level, remaining, open_ended = capacity, remaining - step, open_ended - 1
    if open_ended == 0:
        return Level(level, remaining)
    return Level(level + remaining // open_ended, 0)


def dealt(free: Sequence[str], loads: Sequence[Load], level: int, me: str) -> Sequence[str]:
    """Return which of the free shards are mine to take.

    They are dealt like cards: first to those below the level, then one each to the others that
    stand at it. Workers that see the same never reach for the same shard.
    """
    mine: list[str] = []
    place = 0
    for load in loads:
        room = load.room(level)
        if load.worker == me:
            mine.extend(free[place : place + room])
        place += room
    for load in loads:
        if load.held <= level and load.room(level + 1) > load.room(level):
            if load.worker == me:
                mine.extend(free[place : place + 1])
            place += 1
    return mine


def wanted_from_others(mine: Load, others: Sequence[Load], level: int) -> int:
    """Return how many leases to ask the others for: never so many that they must ask back."""
    most = max((load.held for load in others), default=0)
    if most < mine.held + 2:
        return 0
    below = mine.room(level)
    return below or min(1, mine.room(mine.held + 1))


def givers(loads: Sequence[Load], level: int, me: str) -> list[str]:
    """Return whom to ask, once for each lease that I lack.

    The highest give to the lowest, one by one, like steps of a stair: workers that see the same
    do not all ask the same.
    """
    lacking = [
        (height, load.worker)
        for load in loads
        for height in range(load.held, load.held + max(load.room(level), load.room(load.held + 1)))
    ]
    giving = [(height, load.worker) for load in loads for height in range(load.held, level, -1)]
    lacking.sort()
    giving.sort(key=lambda step: (-step[0], step[1]))
    return [
        giver
        for (low, asker), (high, giver) in zip(lacking, giving, strict=False)
        if asker == me and high >= low + 2
    ]


def may_give(held: int, asker_holds: int) -> bool:
    """Return true if the asker holds no more than the giver after one shard was given."""
    return held - 1 >= asker_holds + 1
