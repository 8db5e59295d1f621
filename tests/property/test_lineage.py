"""Order through any history of splits, merges and trims; and the bugs that must be caught."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardline.core.lineage import State, trace, uncovered
from shardline.core.promise import PromiseChecker
from tests.property.histories import Bug, World, play

histories = st.lists(st.integers(0, 999), max_size=120)


@pytest.mark.req("O-01", "O-02", "O-03", "O-05", "O-09", "O-10", "O-12", "K-04", "K-09", "K-10")
@pytest.mark.case("L-01", "L-02", "L-05", "L-07", "L-19")
@given(histories)
def test_every_key_in_order_and_nothing_lost_through_any_history(steps: list[int]) -> None:
    verdict = play(steps, trims=False).require()
    assert verdict.in_gaps == 0


@pytest.mark.req("K-02", "K-21")
@pytest.mark.case("L-03", "L-17")
@given(histories)
@example([256, 0, 1, 292, 572, 572])  # a lineage that comes and goes before anybody looks again
def test_trims_make_declared_gaps_and_nothing_else(steps: list[int]) -> None:
    play(steps).require()


@pytest.mark.req("O-04")
@given(histories)
def test_hash_ranges_always_cover_the_space(steps: list[int]) -> None:
    world = World(PromiseChecker())
    for step in steps:
        (world.split if step % 2 else world.merge)(step // 2)
        assert uncovered(world.listing()) == ()


@pytest.mark.req("K-22", "K-23", "K-24")
@given(histories, st.sets(st.integers(0, 40)))
def test_a_shard_is_readable_exactly_when_no_listed_ancestor_is_unfinished(
    steps: list[int], finished: set[int]
) -> None:
    world = World(PromiseChecker())
    for step in steps:
        (world.split if step % 2 else world.merge)(step // 2)
    shards = {shard.id: shard for shard in world.listing()}
    drained = {f"shard-{n}" for n in finished} & shards.keys()
    lineage = trace(shards.values(), drained=drained)
    for shard in shards.values():
        ancestors, frontier = set(), list(shard.parents)
        while frontier:
            ancestor = frontier.pop()
            ancestors.add(ancestor)
            frontier.extend(shards[ancestor].parents)
        expected = (
            State.DRAINED
            if shard.id in drained
            else State.READABLE
            if ancestors <= drained
            else State.WAITING
        )
        assert lineage[shard.id].state is expected


@pytest.mark.case("L-01", "L-04", "L-05", "L-06", "L-15", "L-19")
@pytest.mark.req("O-08", "K-18")
@pytest.mark.parametrize("bug", [bug for bug in Bug if bug is not Bug.NONE], ids=lambda b: b.name)
def test_the_checker_catches_the_bug(bug: Bug) -> None:
    histories_tried = (
        [rng.randrange(1000) for _ in range(120)] for rng in map(random.Random, range(50))
    )
    assert any(not play(steps, bug, trims=False).kept for steps in histories_tried)
