"""What may go into a call, and what an answer changes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from shardline.core.shards import HASH_SPACE_END, HashRange, Shard
from shardline.core.writes.entries import MIB, make_entry
from shardline.core.writes.order import Lane, WriteOrder
from shardline.core.writes.shard_map import ShardMap

HALF = 2**127
LOW = Shard("low", hash_range=HashRange(0, HALF - 1))
HIGH = Shard("high", hash_range=HashRange(HALF, HASH_SPACE_END))


@dataclass
class Result:
    shard_id: str | None = None
    sequence_number: str | None = None
    error_code: str | None = None


ACCEPTED = Result("low", "1")
REFUSED = Result(error_code="ProvisionedThroughputExceededException")


def order_of(*records: tuple[str, str, str | None], **options: float) -> WriteOrder:
    order = WriteOrder(ShardMap(), **options)  # type: ignore[arg-type]
    order.listed([LOW, HIGH], 0.0)
    for key, data, hash_key in records:
        order.add(make_entry(key, data.encode(), hash_key))
    return order


def contents(call: list[Lane]) -> list[str]:
    return [entry.data.decode() for lane in call for entry in lane.taken_entries()]


@pytest.mark.req("S-01")
def test_a_call_has_one_entry_of_a_key_and_the_next_waits_for_its_answer() -> None:
    order = order_of(("a", "a1", "0"), ("a", "a2", "0"), ("b", "b1", "0"))
    first = order.next_call(0.0)
    assert contents(first) == ["a1", "b1"]
    assert order.next_call(0.0) == []
    assert order.wait_seconds(0.0) is None
    order.answered(first, [ACCEPTED, ACCEPTED], 0.1)
    assert contents(order.next_call(0.1)) == ["a2"]
    assert not order.is_empty


@pytest.mark.req("S-02")
def test_a_refused_entry_holds_back_its_key_and_no_other() -> None:
    order = order_of(("a", "a1", "0"), ("b", "b1", "0"), ("a", "a2", "0"), ("b", "b2", "0"))
    order.answered(order.next_call(0.0), [REFUSED, ACCEPTED], 0.1)
    now = 0.101 + (order.wait_seconds(0.1) or 0.0)
    call = order.next_call(now)
    assert contents(call) == ["a1", "b2"]
    order.answered(call, [ACCEPTED, ACCEPTED], now)
    assert contents(order.next_call(now + 1)) == ["a2"]
    assert order.written.refused == 1


@pytest.mark.req("S-05")
def test_a_refusal_pauses_only_the_keys_of_its_shard() -> None:
    low = [(key, f"{key}1", "0") for key in "acdef"]
    order = order_of(*low, ("b", "b1", str(HALF)))
    call = order.next_call(0.0)
    assert contents(call) == ["a1", "c1", "d1", "e1", "f1", "b1"]
    order.answered(call, [*[REFUSED] * 5, Result("high", "2")], 0.0)
    order.add(make_entry("b", b"b2", str(HALF)))
    assert contents(order.next_call(0.0)) == ["b2"]
    assert order.wait_seconds(0.0) == pytest.approx(0.1)
    assert contents(order.next_call(0.11)) == ["f1", "e1", "d1", "c1", "a1"]


@pytest.mark.req("S-05")
@pytest.mark.parametrize(
    ("sizes", "taken", "paused"),
    [
        ([9] * 10, "nnnnnyyyyy", False),  # there was room after the refusals
        ([9] * 10, "yyyyynnnnn", True),  # the rest of the call was refused
        ([9] * 10, "yyyyyyynnn", False),  # the same, but that may be chance
        ([9] * 10, "nnnnnnyyyy", True),  # more was refused than taken
        ([9] * 5 + [1] * 5, "nnnnnyyyyy", True),  # there was room for smaller ones
    ],
)
def test_a_shard_is_slowed_down_if_its_quota_may_be_the_reason(
    sizes: list[int], taken: str, paused: bool
) -> None:
    order = order_of(*[(f"{n}", "x" * size, "0") for n, size in enumerate(sizes)])
    order.answered(order.next_call(0.0), [ACCEPTED if t == "y" else REFUSED for t in taken], 0.0)
    assert (order.next_call(0.0) == []) is paused


@pytest.mark.req("S-04")
def test_a_call_holds_at_most_500_records_and_5_mib_and_a_larger_record_goes_alone() -> None:
    order = WriteOrder(ShardMap())
    for number in range(1_200):
        order.add(make_entry(f"key-{number}", b""))
    assert [len(order.next_call(0.0)) for _ in range(4)] == [500, 500, 200, 0]
    order = WriteOrder(ShardMap())
    for number, size in enumerate([3, 3, 8, 1, 1]):
        order.add(make_entry(f"key-{number}", bytes(size * MIB)))
    sizes = []
    while call := order.next_call(0.0):
        sizes.append([len(lane.waiting[0].data) // MIB for lane in call])
    assert sizes == [[3], [3], [8], [1, 1]]


@pytest.mark.req("S-03")
def test_a_record_that_is_refused_for_too_long_is_reported_and_kept() -> None:
    order = order_of(("a", "a1", "0"), ("a", "a2", "0"), give_up_seconds=10)
    now = 0.0
    while order.overdue is None:
        now += (order.wait_seconds(now) or 0.0) + 0.001
        if call := order.next_call(now):
            order.answered(call, [REFUSED], now)
        assert now < 20
    assert now > 10
    assert (order.overdue.key, order.overdue.shard_id) == ("a", "low")
    assert order.backlog_records == 2


@pytest.mark.req("S-07")
def test_an_answer_that_names_another_shard_asks_for_a_listing_once_in_a_while() -> None:
    order = order_of(("a", "a1", "0"), ("a", "a2", "0"), ("a", "a3", "0"))
    asked = [order.needs_listing]
    order.answered(order.next_call(1.0), [Result("child", "1")], 1.0)
    asked.append(order.needs_listing)
    order.answered(order.next_call(6.0), [Result("child", "2")], 6.0)
    asked.append(order.needs_listing)
    child = Shard("child", ("low",), HashRange(0, HALF - 1))
    order.listed([child, HIGH], 6.0)
    order.answered(order.next_call(20.0), [Result("child", "3")], 20.0)
    asked.append(order.needs_listing)
    assert asked == [False, False, True, False]
    assert order.written.last == {"child": "3"}


def test_a_listing_that_comes_while_a_call_is_under_way_loses_no_lane() -> None:
    order = WriteOrder(ShardMap())
    order.add(make_entry("a", b"a1", "0"))
    order.add(make_entry("b", b"b1", "0"))
    call = order.next_call(0.0)
    order.add(make_entry("c", b"c1", "0"))
    order.listed([LOW, HIGH], 0.0)
    order.answered(call, [REFUSED, ACCEPTED], 0.0)
    assert contents(order.next_call(1.0)) == ["a1", "c1"]


def test_a_key_without_explicit_hash_keys_after_one_with() -> None:
    order = order_of(("a", "a1", "0"), ("a", "a2", None))
    order.answered(order.next_call(0.0), [ACCEPTED], 0.0)
    (lane,) = order.next_call(0.0)
    assert lane.by_key


@pytest.mark.req("S-08")
def test_records_of_one_key_and_hash_key_are_packed_up_to_a_size() -> None:
    order = WriteOrder(ShardMap(), packed_bytes=1000)
    for number, hash_key in enumerate(["1", "1", "1", "2", "2"]):
        order.add(make_entry("a", b"%d" % number, hash_key))
    order.add(make_entry("b", bytes(400)))
    order.add(make_entry("b", bytes(400)))
    order.add(make_entry("b", bytes(400)))
    order.add(make_entry("c", bytes(5000)))
    order.add(make_entry("c", b""))
    call = order.next_call(0.0)
    assert [lane.taken for lane in call] == [3, 2, 1]
    order.answered(call, [ACCEPTED] * 3, 0.0)
    assert order.written.records == 6
    assert [lane.taken for lane in order.next_call(0.0)] == [2, 1, 1]
