"""The total order: lineage and in-shard order, then creation time, then the shard's clock."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.merging import Backlog, merge, rising


def backlog(clock: int, times: list[int], *, holds: bool = False) -> Backlog:
    return Backlog(clock, rising(np.array(times, np.int64)), holds)


def order(*backlogs: Backlog) -> list[tuple[int, int]]:
    """The merged order, as (clock, index in the shard)."""
    merged = merge(backlogs)
    lying = [
        (b.clock, index)
        for b, count in zip(backlogs, merged.counts, strict=True)
        for index in range(count)
    ]
    return lying if merged.order is None else [lying[i] for i in merged.order]


@pytest.mark.req("C-25", "C-28")
def test_creation_time_decides_and_the_clock_breaks_ties() -> None:
    assert order(backlog(0, [6, 8, 10]), backlog(1, [8, 9, 9])) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (1, 2),
        (0, 2),
    ]
    assert order(backlog(5, [1]), backlog(3, [1]), backlog(4, [1])) == [(3, 0), (4, 0), (5, 0)]


@pytest.mark.req("C-17", "C-26")
@pytest.mark.case("T-05")
def test_a_clock_that_runs_backwards_does_not_reorder_its_shard() -> None:
    assert order(backlog(0, [5, 1, 2, 9]), backlog(1, [4, 6])) == [
        (1, 0),
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 1),
        (0, 3),
    ]


@pytest.mark.case("T-06")
def test_nothing_passes_the_last_record_of_a_shard_that_holds() -> None:
    assert order(backlog(0, [1, 3], holds=True), backlog(1, [2, 4, 5])) == [(0, 0), (1, 0), (0, 1)]
    tie = [backlog(1, [3], holds=True), backlog(0, [3, 4]), backlog(2, [3, 4])]
    assert order(*tie) == [(0, 0), (1, 0)]


def test_an_empty_shard_that_holds_holds_everything_and_one_at_its_tip_nothing() -> None:
    assert order(backlog(0, [], holds=True), backlog(1, [2])) == []
    assert order(backlog(0, []), backlog(1, [2])) == [(1, 0)]
    assert order() == []


def greedy(shards: list[list[int]]) -> list[tuple[int, int]]:
    """The rule of the module, word by word."""
    heads = [0] * len(shards)
    delivered = []
    while any(head < len(times) for head, times in zip(heads, shards, strict=True)):
        _, clock = min(
            (times[head], clock)
            for clock, (head, times) in enumerate(zip(heads, shards, strict=True))
            if head < len(times)
        )
        delivered.append((clock, heads[clock]))
        heads[clock] += 1
    return delivered


@pytest.mark.req("C-17", "C-25", "C-26")
@pytest.mark.case("T-05", "T-06")
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=8), max_size=5),
    st.lists(st.integers(1, 4), min_size=5, max_size=5),
)
def test_the_order_is_the_rule_whatever_the_pages(
    shards: list[list[int]], page_sizes: list[int]
) -> None:
    unread = [list(enumerate(times)) for times in shards]
    pages: list[list[tuple[int, int]]] = [[] for _ in shards]
    delivered: list[tuple[int, int]] = []
    while any(unread) or any(pages):
        for clock, page in enumerate(pages):
            if not page:
                size = page_sizes[clock]
                pages[clock], unread[clock] = unread[clock][:size], unread[clock][size:]
        merged = merge(
            [
                backlog(clock, [time for _, time in page], holds=bool(unread[clock]))
                for clock, page in enumerate(pages)
            ]
        )
        lying = []
        for clock, count in enumerate(merged.counts):
            lying += [(clock, index) for index, _ in pages[clock][:count]]
            pages[clock] = pages[clock][count:]
        delivered += lying if merged.order is None else [lying[i] for i in merged.order]
    assert delivered == greedy(shards)
    for clock in range(len(shards)):
        mine = [index for c, index in delivered if c == clock]
        assert all(a < b for a, b in pairwise(mine))
