"""Writes under refusals, lost answers and reshards: each key in order, nothing lost or dropped."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard, hash_key_of
from shardline.core.writes.entries import make_entry
from shardline.core.writes.order import CALL_BYTES, CALL_RECORDS, Lane, WriteOrder
from shardline.core.writes.shard_map import ShardMap

HALF = 2**127


@dataclass
class Result:
    shard_id: str | None = None
    sequence_number: str | None = None
    error_code: str | None = None


class Shards:
    """A stream that refuses entries at random, and answers calls in any order, late or twice."""

    def __init__(self, seed: int, refused: float, lost_answers: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.refused = refused
        self.lost_answers = lost_answers
        self.written: dict[str, list[bytes]] = defaultdict(list)
        self.split = False
        self.numbers = 0

    def listing(self) -> list[Shard]:
        first = SequenceNumber("1")
        whole = Shard("whole", hash_range=HashRange(0, HASH_SPACE_END), first=first)
        if not self.split:
            return [whole]
        closed = Shard("whole", hash_range=whole.hash_range, first=first, last=first)
        halves = (HashRange(0, HALF - 1), HashRange(HALF, HASH_SPACE_END))
        return [closed, *(Shard(f"half-{r.start}", ("whole",), r, first) for r in halves)]

    def put(self, call: list[Lane]) -> list[Result]:
        while self.random.random() < self.lost_answers:
            self._write(call)  # it took effect, nobody was told, and it is made again
        return self._write(call)

    def _write(self, call: list[Lane]) -> list[Result]:
        assert 0 < len(call) <= CALL_RECORDS
        entries = [entry for lane in call for entry in lane.taken_entries()]
        assert sum(entry.size_bytes for entry in entries) <= CALL_BYTES or len(call) == 1
        results = []
        for lane in call:
            if self.random.random() < self.refused:
                results.append(Result(error_code="ProvisionedThroughputExceededException"))
                continue
            self.numbers += 1
            for entry in lane.taken_entries():
                self.written[entry.key].append(entry.data)
            half = 0 if hash_key_of(lane.key) < HALF else HALF
            shard_id = f"half-{half}" if self.split else "whole"
            results.append(Result(shard_id, str(self.numbers)))
        return results


def write(order: WriteOrder, shards: Shards, records: list[tuple[str, bytes]]) -> None:
    """Write records with up to three calls under way, answered in any order."""
    draw, now = shards.random, 0.0
    rest = iter(records)
    under_way: list[list[Lane]] = []
    given = 0
    while True:
        for key, data in islice(rest, draw.randrange(400)):
            order.add(make_entry(key, data))
            given += 1
        if order.needs_listing:
            order.listed(shards.listing(), now)
        if not shards.split and given > len(records) // 2:
            shards.split = True
        call = order.next_call(now) if len(under_way) < 3 else []
        if call:
            under_way.append(call)
        elif under_way:
            answered = under_way.pop(draw.randrange(len(under_way)))
            results = shards.put(answered)
            now += 0.01
            order.answered(answered, results, now)
            assert order.overdue is None
        elif order.is_empty and given == len(records):
            return
        else:
            now += (order.wait_seconds(now) or 0.0) + 0.001


@pytest.mark.req("S-01", "S-02")
@given(seed=st.integers(0, 2**32), packed=st.sampled_from([0, 2_000]))
def test_a_third_of_the_entries_refused(seed: int, packed: int) -> None:
    records = [(f"key-{n % 50}", b"%d" % n) for n in range(2_000)]
    shards = Shards(seed, refused=1 / 3)
    order = WriteOrder(ShardMap(), packed_bytes=packed)
    write(order, shards, records)
    for key in {key for key, _ in records}:
        assert shards.written[key] == [data for each, data in records if each == key]
    assert order.written.records == len(records)
    assert order.backlog_records == order.backlog_bytes == 0


@pytest.mark.req("S-01")
def test_ten_thousand_records_of_fifty_keys_in_order_and_once() -> None:
    records = [(f"key-{n % 50}", b"%d" % n) for n in range(10_000)]
    shards = Shards(7, refused=1 / 3)
    write(WriteOrder(ShardMap()), shards, records)
    for place in range(50):
        expected = [data for key, data in records if key == f"key-{place}"]
        assert shards.written[f"key-{place}"] == expected


@pytest.mark.req("S-06")
@given(seed=st.integers(0, 2**32))
def test_lost_answers_repeat_a_record_only_directly_after_itself(seed: int) -> None:
    draw = random.Random(seed)
    records = [(f"key-{draw.randrange(20)}", b"%d" % n) for n in range(600)]
    shards = Shards(seed, refused=1 / 3, lost_answers=0.3)
    write(WriteOrder(ShardMap()), shards, records)
    for key in {key for key, _ in records}:
        written = shards.written[key]
        once = [b for a, b in zip([None, *written], written, strict=False) if a != b]
        assert once == [data for each, data in records if each == key]
