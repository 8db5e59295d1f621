"""The order in which a stream gives its records."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.streams.world import World, names

if TYPE_CHECKING:
    from shardline.services.port import Page


def worked_example(seed: int | None) -> World:
    """S0 => {S1, S2}, with sequence numbers that rise with time or are shuffled among shards."""
    world = World()
    s0 = world.roots[0]
    world.put("R00", s0, hours_ago=7)
    s1, s2 = world.split(s0)
    children = [
        (s1, [("R11", 6), ("R12", 4), ("R13", 2)]),
        (s2, [("R24", 4), ("R25", 3), ("R26", 3)]),
    ]
    puts = [(shard, *record) for shard, records in children for record in records]
    if seed is not None:
        # Which shard writes next is chance, so that numbers say nothing about the other shard.
        turns = [shard for shard, records in children for _ in records]
        random.Random(seed).shuffle(turns)
        waiting = {shard: iter(records) for shard, records in children}
        puts = [(shard, *next(waiting[shard])) for shard in turns]
    for shard, name, hours_ago in puts:
        world.put(name, shard, hours_ago)
    return world


@pytest.mark.req("C-18", "C-25", "C-26", "C-27", "C-28")
@pytest.mark.case("T-06")
@pytest.mark.parametrize("page_size", range(1, 11))
@pytest.mark.parametrize("seed", [None, *range(5)])
def test_the_worked_example(page_size: int, seed: int | None) -> None:
    world = worked_example(seed)
    stream = world.stream("trim_horizon", page_size=page_size)
    assert names(stream) == ["R00", "R11", "R12", "R24", "R25", "R26", "R13"]


@pytest.mark.req("C-21", "C-24")
@pytest.mark.parametrize("page_size", [1, 2, 10])
def test_parents_first_in_every_one_of_several_lineages(page_size: int) -> None:
    world = World(shards=2)
    first, second = world.roots
    world.put("R111", first)
    world.put("R112", first)
    world.put("U1", second, hours_ago=1)
    s12, s13 = world.split(first)
    world.put("R124", s12)
    world.put("R125", s12)
    world.put("R136", s13)
    world.put("R137", s13)
    given = names(world.stream("trim_horizon", page_size=page_size))
    assert sorted(given) == ["R111", "R112", "R124", "R125", "R136", "R137", "U1"]
    assert given[0] == "U1"
    for chain in (["R111", "R112", "R124", "R125"], ["R111", "R112", "R136", "R137"]):
        assert [name for name in given if name in chain] == chain


@pytest.mark.req("C-18", "C-26")
@pytest.mark.case("T-04")
@pytest.mark.parametrize("page_size", [1, 10])
def test_a_child_whose_clock_is_behind_comes_after_its_parent(page_size: int) -> None:
    world = World()
    world.put("parent", hours_ago=1)
    (child, _) = world.split(world.roots[0])
    world.put("child", child, hours_ago=5)
    assert names(world.stream("trim_horizon", page_size=page_size)) == ["parent", "child"]


@pytest.mark.req("C-17", "C-23", "C-26")
@pytest.mark.case("T-05")
@pytest.mark.parametrize("page_size", [1, 2, 10])
def test_a_single_partition_is_read_in_its_exact_order(page_size: int) -> None:
    world = World()
    shard = world.roots[0]
    written = []
    for index, hours_ago in enumerate([3, 5, 1, 4, 2]):
        written.append(f"R{index}")
        world.put(f"R{index}", shard, hours_ago)
        if index == 2:
            shard = world.roll(shard)
    assert names(world.stream("trim_horizon", page_size=page_size)) == written


@pytest.mark.case("T-06", "T-04")
@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_a_child_is_merged_before_others_go_on(page_size: int) -> None:
    """The end of a shard is not the end of its lineage: its child's records are as old."""
    world = World(shards=2)
    first, second = world.roots
    world.put("a", first, hours_ago=7)
    child = world.roll(first)
    world.put("b", child, hours_ago=6)
    world.put("c", second, hours_ago=5)
    assert names(world.stream("trim_horizon", page_size=page_size)) == ["a", "b", "c"]


def test_a_shard_that_never_reaches_its_tip_holds_the_others_for_its_patience_only() -> None:
    world = World(shards=2)
    slow, other = world.roots
    world.put("waits", other, hours_ago=1)
    reads = 0

    def change(shard_id: str, page: Page) -> Page:
        nonlocal reads
        if shard_id == other:
            return replace(page, behind_ms=0)
        reads += 1
        world.clock.advance(0.5)  # an answer takes half a second and says: still behind
        return replace(page, behind_ms=60_000)

    world.service.change_page = change
    stream = world.stream("trim_horizon", patience_seconds=2.0, poll_seconds=0.25)
    assert names(stream, 1) == ["waits"]
    assert reads == 4  # two seconds' worth of asking, and not one call more
    assert next(stream) is None
    assert reads == 4  # it is asked no more often than a shard at its tip
    world.put("late", slow, hours_ago=2)
    world.clock.advance(0.25)
    assert names(stream, 1) == ["late"]
