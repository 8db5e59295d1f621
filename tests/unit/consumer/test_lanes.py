"""Lanes keep each key in order; the watermark never passes what is not acknowledged."""

from __future__ import annotations

import operator
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.consumer.lanes import Watermark, split
from tests.unit.consumer.shard_pages import changes, page

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = st.text(max_size=6)


def rows(part: pa.RecordBatch) -> list[tuple[str, int]]:
    numbers = map(int, part.column("sequenceNumber").to_pylist())
    return list(zip(part.column("partitionKey").to_pylist(), numbers, strict=True))


@given(keys=st.lists(KEYS, max_size=40), lanes=st.integers(1, 5), cut=st.integers(0, 40))
def test_every_record_is_in_one_lane_and_a_key_always_in_the_same(
    keys: list[str], lanes: int, cut: int
) -> None:
    records = [(key, number) for number, key in enumerate(keys)]
    whole = page(*records)
    lane_of: dict[str, int] = {}
    found: list[tuple[str, int]] = []
    for part in (whole.slice(0, cut), whole.slice(cut)):
        parts = split(part, lanes)
        assert len(parts) == lanes
        for lane, batch in enumerate(parts):
            assert rows(batch) == sorted(rows(batch), key=lambda row: row[1])
            assert all(lane_of.setdefault(key, lane) == lane for key, _ in rows(batch))
            found += rows(batch)
    assert sorted(found, key=lambda row: row[1]) == records


def test_similar_keys_spread_over_the_lanes() -> None:
    parts = split(page(*[(f"user-{n}", n) for n in range(4000)]), 4)
    assert all(850 < part.num_rows < 1150 for part in parts)
    even = split(page(*[("\x00" * n, n) for n in range(400)]), 2)
    assert all(part.num_rows > 100 for part in even)


def test_one_lane_takes_the_page_as_it_is() -> None:
    records = page(("a", 1), ("b", 2))
    (only,) = split(records, 1)
    assert only is records


def test_the_items_of_one_hash_key_are_in_one_lane() -> None:
    records = changes(*[f'{{"id":{{"S":"a"}},"at":{{"N":"{n}"}}}}' for n in range(50)])
    assert sorted(part.num_rows for part in split(records, 4, "id")) == [0, 0, 0, 50]


@pytest.mark.case("R-07")
@pytest.mark.req("K-45")
@given(parts=st.lists(st.integers(1, 4), min_size=1, max_size=12), data=st.data())
def test_the_watermark_is_the_end_of_the_acknowledged_run(
    parts: list[int], data: st.DataObject
) -> None:
    """Against the definition, for acknowledgements in any order, while more chunks are opened."""
    watermark = Watermark[int]()
    tickets: dict[int, int] = {}  # of each open chunk
    left: list[int] = []
    reached = -1
    waiting = list(parts)
    while waiting or any(left):
        unfinished = [chunk for chunk, count in enumerate(left) if count]
        if waiting and (not unfinished or data.draw(st.booleans())):
            chunk = len(left)
            left.append(waiting.pop(0))
            tickets[chunk] = watermark.opened(chunk, left[chunk])
            continue
        chunk = data.draw(st.sampled_from(unfinished))
        left[chunk] -= 1
        moved = watermark.acknowledged(tickets[chunk])
        whole = sum(accumulate((count == 0 for count in left), operator.and_)) - 1
        assert moved == (whole if whole > reached else None)
        reached = max(reached, whole)
        assert len(watermark) == len(left) - reached - 1
    assert reached == len(parts) - 1


@pytest.mark.case("R-07")
def test_a_part_that_is_acknowledged_twice_is_an_error() -> None:
    watermark = Watermark[str]()
    first, second = watermark.opened("first", 2), watermark.opened("second", 1)
    assert watermark.acknowledged(second) is None
    with pytest.raises(ValueError, match="more often"):
        watermark.acknowledged(second)
    assert watermark.acknowledged(first) is None
    assert watermark.acknowledged(first) == "second"
    with pytest.raises(ValueError, match="more often"):
        watermark.acknowledged(first)
    with pytest.raises(ValueError, match="without parts"):
        watermark.opened("third", 0)
