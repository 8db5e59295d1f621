"""Whatever is split, merged, written and trimmed, the embedded Kinesis keeps its own rules."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardline.core.positions import TRIM_HORIZON
from shardline.core.shards import HASH_SPACE_END, Shard, hash_key_of
from shardline.local.kinesis.resharding import scale_uniformly
from tests.twins.kinesis import KinesisTwin

KEYS = [f"key-{index}" for index in range(8)]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS)),
        st.tuples(st.just("split"), st.integers(0, 20), st.integers(0, 2**64 - 1)),
        st.tuples(st.just("merge"), st.integers(0, 20)),
        st.tuples(st.just("scale"), st.integers(1, 6)),
        st.tuples(st.just("wait"), st.sampled_from([1, 3600, 20 * 3600])),
    ),
    max_size=40,
)


class History:
    """A twin with everything that was written to it, when."""

    def __init__(self, shards: int) -> None:
        self.twin = KinesisTwin(shards)
        self.written: list[tuple[str, str, int, int]] = []

    def act(self, step: tuple[Any, ...]) -> None:
        twin = self.twin
        open_shards = sorted(
            (shard for shard in twin.list_shards() if not shard.closed),
            key=lambda shard: shard.hash_range or pytest.fail("no range"),
        )
        match step:
            case "put", key:
                written = twin.put(key, str(len(self.written)).encode())
                entry = (key, written.shard_id, int(written.sequence), twin.clock.now_ms())
                self.written.append(entry)
            case "split", which, where:
                shard = open_shards[which % len(open_shards)]
                assert shard.hash_range is not None
                room = shard.hash_range.end - shard.hash_range.start - 2
                if room > 0:
                    twin.split(shard.id, shard.hash_range.start + 2 + room * where // 2**64)
            case "merge", which:
                if len(open_shards) > 1:
                    place = which % (len(open_shards) - 1)
                    twin.merge(open_shards[place].id, open_shards[place + 1].id)
            case "scale", count:
                stream = twin.account.find(twin.name, twin.clock.now_ms())
                scale_uniformly(stream, count, twin.clock.now_ms())
            case "wait", seconds:
                twin.clock.advance(seconds)


def read_all(twin: KinesisTwin, shard: Shard) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    iterator: str | None = twin.open(shard.id, TRIM_HORIZON)
    while iterator is not None:
        page = twin.read(iterator, 3)
        rows += page.records.to_pylist()
        iterator = page.next_iterator if shard.closed or page.behind_ms else None
    return rows


@pytest.mark.req("K-03", "K-04", "O-04")
@settings(max_examples=60)
@given(shards=st.integers(1, 4), steps=STEPS)
def test_ranges_numbers_and_lineage_hold(shards: int, steps: list[tuple[Any, ...]]) -> None:
    history = History(shards)
    twin = history.twin
    ranges: dict[str, Any] = {}
    closed: set[str] = set()
    for step in steps:
        history.act(step)
        for shard in twin.list_shards():
            assert ranges.setdefault(shard.id, shard.hash_range) == shard.hash_range
            assert shard.closed or shard.id not in closed
            if shard.closed:
                closed.add(shard.id)

    listed = {shard.id: shard for shard in twin.list_shards()}
    open_ranges = sorted(
        shard.hash_range for shard in listed.values() if not shard.closed and shard.hash_range
    )
    assert open_ranges[0].start == 0
    assert open_ranges[-1].end == HASH_SPACE_END
    assert all(left.end + 1 == right.start for left, right in pairwise(open_ranges))

    for shard in listed.values():
        assert shard.first is not None
        for parent_id in shard.parents:
            parent = listed.get(parent_id)
            assert parent is None or (parent.last is not None and parent.last < shard.first)

    # Shard by shard, parents first (indexes rise along the lineage): what is still kept, in order.
    found: list[tuple[str, str, int]] = []
    for shard in listed.values():
        numbers = []
        for row in read_all(twin, shard):
            number = int(row["sequenceNumber"])
            numbers.append(number)
            found.append((row["partitionKey"], shard.id, number))
            assert shard.hash_range is not None
            assert hash_key_of(row["partitionKey"]) in shard.hash_range
            assert shard.first is not None
            assert int(shard.first) < number
            assert shard.last is None or number < int(shard.last)
        assert numbers == sorted(set(numbers))
    horizon_ms = twin.clock.now_ms() - 24 * 3600 * 1000
    for key in KEYS:
        kept = [
            (key_, shard_id, number)
            for key_, shard_id, number, at_ms in history.written
            if key_ == key and at_ms > horizon_ms
        ]
        assert [each for each in found if each[0] == key] == kept
