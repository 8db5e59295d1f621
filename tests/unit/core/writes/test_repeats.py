"""A record is a repeat if its position is not above the highest one of its key."""

from __future__ import annotations

import random

import pytest

from shardline.core.writes.repeats import RepeatFilter


@pytest.mark.req("S-10")
@pytest.mark.parametrize("seed", range(20))
def test_the_first_copies_of_overlapping_writers_are_in_order_and_complete(seed: int) -> None:
    """Any number of attempts, each in order from its start and cut off anywhere, interleaved."""
    draw = random.Random(seed)
    attempts = [list(range(draw.randrange(5))) for _ in range(4)] + [list(range(20))]
    places: RepeatFilter[int] = RepeatFilter()
    new = []
    while attempts := [attempt for attempt in attempts if attempt]:
        position = draw.choice(attempts).pop(0)
        if places.is_new("a", position):
            new.append(position)
    assert new == list(range(20))


def test_each_key_has_positions_of_its_own_which_can_be_kept() -> None:
    places: RepeatFilter[tuple[int, ...]] = RepeatFilter({"a": (1, 5)})
    assert not places.is_new("a", (1, 5))
    assert places.is_new("a", (2, 0))
    assert places.is_new("b", (1, 0))
    assert places.last == {"a": (2, 0), "b": (1, 0)}
