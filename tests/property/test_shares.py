"""Shares are fair whatever the numbers, and who sees the same never reaches for the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.leasing.shares import (
    Load,
    dealt,
    givers,
    level_of,
    may_give,
    wanted_from_others,
)

loads = st.lists(
    st.tuples(st.integers(0, 12), st.none() | st.integers(0, 15)), min_size=1, max_size=8
).map(
    lambda held: [Load(f"w{i}", h if c is None else min(h, c), c) for i, (h, c) in enumerate(held)]
)


@given(loads, st.integers(0, 60))
@pytest.mark.case("W-13")
def test_a_level_fits_and_one_more_does_not(workers: list[Load], total: int) -> None:
    level, left_over = level_of(total, workers)
    room = sum(load._replace(held=0).room(level) for load in workers)
    assert room <= total
    capacities = [load.capacity for load in workers]
    if all(capacity is not None for capacity in capacities):
        assert left_over == max(0, total - sum(c or 0 for c in capacities))
    else:
        assert left_over == 0
        assert sum(load._replace(held=0).room(level + 1) for load in workers) > total


@given(loads, st.integers(0, 40))
@pytest.mark.req("K-06")
@pytest.mark.case("W-15")
def test_free_shards_are_dealt_once_and_evenly(workers: list[Load], free_count: int) -> None:
    free = [f"s{i}" for i in range(free_count)]
    total = free_count + sum(load.held for load in workers)
    level, left_over = level_of(total, workers)
    hands = {load.worker: dealt(free, workers, level, load.worker) for load in workers}
    given_out = [shard for hand in hands.values() for shard in hand]
    assert len(given_out) == len(set(given_out)), "two workers reach for one shard"
    over = sum(max(0, load.held - level) for load in workers)
    assert len(given_out) >= free_count - left_over - over
    for load in workers:
        held = load.held + len(hands[load.worker])
        assert held <= max(load.held, level + 1)
        assert load.capacity is None or held <= max(load.held, load.capacity)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=7))
@pytest.mark.case("W-17")
def test_asking_and_giving_ends_in_balance(held: list[int]) -> None:
    names = [f"w{i}" for i in range(len(held))]
    for _ in range(sum(held) * len(held) + 1):
        workers = [Load(name, n) for name, n in zip(names, held, strict=True)]
        level = level_of(sum(held), workers).level
        moved = False
        for i, me in enumerate(workers):
            others = [load for load in workers if load is not me]
            rich = max(range(len(held)), key=held.__getitem__)
            if wanted_from_others(me, others, level) and may_give(held[rich], held[i]):
                held[rich] -= 1
                held[i] += 1
                moved = True
                break
        if not moved:
            break
    assert max(held) - min(held) <= 1


@given(st.lists(st.integers(0, 30), min_size=2, max_size=9))
@pytest.mark.case("W-17")
def test_who_sees_the_same_asks_so_that_all_reach_the_level_at_once(held: list[int]) -> None:
    workers = [Load(f"w{i}", n) for i, n in enumerate(held)]
    level = level_of(sum(held), workers).level
    after = {load.worker: load.held for load in workers}
    for load in workers:
        for giver in givers(workers, level, load.worker):
            after[load.worker] += 1
            after[giver] -= 1
    assert min(after.values()) >= level
    assert max(after.values()) <= max(held)


@given(loads, st.integers(0, 60))
@pytest.mark.case("W-13", "W-17")
def test_nobody_asks_for_more_than_it_has_room_for(workers: list[Load], total: int) -> None:
    level = level_of(total, workers).level
    for me in workers:
        others = [load for load in workers if load is not me]
        asked = givers(workers, level, me.worker)
        assert me.worker not in asked
        assert me.capacity is None or me.held + len(asked) <= max(me.held, me.capacity)
        assert bool(wanted_from_others(me, others, level)) >= bool(asked)
