"""Random histories of writing, resharding and crashing, read by the planner and the reader."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.planning_query import KEYS, Crash, Query, TableWorld, World
from tests.twins.kinesis import KinesisTwin

STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, len(KEYS) - 1)),
    st.tuples(st.just("burst"), st.integers(0, 40)),
    st.tuples(st.just("split"), st.integers(0, 20)),
    st.tuples(st.just("merge"), st.integers(0, 20)),
    st.tuples(st.just("pass"), st.sampled_from([1, 3, 12, 400, 7_200])),
    st.tuples(st.just("batch"), st.just(0)),
    st.tuples(st.just("crash"), st.sampled_from(["planned", "reading", "read"])),
    st.tuples(st.just("empty pages"), st.sampled_from([0, 2, 3, 5])),
)


@pytest.mark.req("O-01", "O-02", "O-03", "O-05", "O-09", "O-10", "O-15", "K-09", "K-10", "P-03")
@pytest.mark.case("L-16", "L-19", "R-03", "R-04", "R-05", "R-09", "R-13")
@settings(max_examples=120)
@given(
    history=st.lists(STEPS, max_size=40), max_records=st.sampled_from([None, 1, 7, 100, 1_000_000])
)
def test_every_history_is_read_in_order_and_whole(
    history: list[tuple[str, int | str]], max_records: int | None
) -> None:
    world = World(KinesisTwin(shards=2))
    query = Query(world, max_records=max_records)
    for step, value in history:
        act(world, query, step, value)
    query.run_dry()
    verdict = world.checker.verdict().require()
    assert verdict.delivered == verdict.written


@pytest.mark.req("C-18", "P-03")
@settings(max_examples=80)
@given(
    history=st.lists(STEPS, max_size=40), max_records=st.sampled_from([None, 1, 7, 100, 1_000_000])
)
def test_every_history_of_a_table_is_read_in_order_and_whole(
    history: list[tuple[str, int | str]], max_records: int | None
) -> None:
    world = TableWorld(shards=2)
    query = Query(world, max_records=max_records)
    for step, value in history:
        if step != "empty pages":
            act(world, query, step, value)
    query.run_dry()
    verdict = world.checker.verdict().require()
    assert verdict.delivered == verdict.written


def act(world: World, query: Query, step: str, value: int | str) -> None:
    match step, value:
        case "put", int(n):
            world.put(KEYS[n])
        case "burst", int(n):
            for i in range(n):
                world.put(KEYS[(n * i) % len(KEYS)])
        case "split", int(n):
            world.split(n)
        case "merge", int(n):
            world.merge(n)
        case "pass", int(seconds):
            world.clock.advance(seconds)
        case "batch", _:
            query.step()
        case "crash", str(point):
            with suppress(Crash):
                query.step(crash_at=point)
            query.restart()
        case "empty pages", int(n):
            world.twin.account.settings.empty_page_every = n
