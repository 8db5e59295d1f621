"""A letter reads back as it was written, whole or in parts, and damage is never taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.consumer.consumer import ShardBatch
from shardline.consumer.letters.letter import (
    LONGEST_REASON,
    Assembly,
    Letter,
    Origin,
    Redriven,
    in_parts,
    letters_for,
    records_of_letters,
)
from shardline.core.fences import Fence
from shardline.services.wire.columns import KINESIS_COLUMNS, SUB_SEQUENCE
from tests.unit.consumer.shard_pages import SHARD, changes, page

if TYPE_CHECKING:
    from collections.abc import Iterable

AT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
ORIGIN = Origin("billing", "orders")
FENCE = Fence(4, 7)
TIMES = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


def letter(data: bytes = b"x", fence: Fence = FENCE, reason: str = "odd") -> Letter:
    row = {"partitionKey": "key", "data": data, "sequenceNumber": "12",
           "approximateArrivalTimestamp": AT}  # fmt: skip
    batch = ShardBatch(SHARD, fence, pa.RecordBatch.from_pylist([row], KINESIS_COLUMNS))
    (one,) = letters_for(batch, reason, ORIGIN, AT)
    return one


def assembled(lines: Iterable[bytes]) -> list[Letter]:
    assembly = Assembly()
    for line in lines:
        assembly.add(line)
    return assembly.letters()


@given(
    rows=st.lists(st.tuples(st.text(), st.binary(), st.integers(0, 10**40), TIMES), max_size=5),
    reason=st.text(st.characters()),
)
def test_a_letter_reads_back_as_it_was_written(
    rows: list[tuple[str, bytes, int, datetime]], reason: str
) -> None:
    records = [
        {"partitionKey": key, "data": data, "sequenceNumber": str(number),
         "approximateArrivalTimestamp": at}
        for key, data, number, at in rows
    ]  # fmt: skip
    arrow = pa.RecordBatch.from_pylist(records, KINESIS_COLUMNS)
    batch = ShardBatch(SHARD, Fence(4, 7), arrow)
    letters = list(letters_for(batch, reason, ORIGIN, AT))
    for one in letters:
        assert assembled([one.to_bytes()]) == [one]
        assert b"\n" not in one.to_bytes()
    assert records_of_letters(letters) == arrow
    assert [one.key for one in letters] == [key for key, *_ in rows]
    assert [one.payload for one in letters] == [data for _, data, *_ in rows]


def test_a_change_of_a_table_reads_back_with_its_hash_key() -> None:
    arrow = changes('{"id":{"S":"a"},"at":{"N":"1"}}')
    (one,) = letters_for(ShardBatch(SHARD, Fence(1, 1), arrow), "odd", Origin(), AT, hash_key="id")
    assert one.key == '{"S":"a"}'
    assert records_of_letters([one]) == arrow
    assert json.loads(one.payload) == {"id": {"S": "a"}, "at": {"N": "1"}}
    (one,) = letters_for(ShardBatch(SHARD, Fence(1, 1), arrow), "odd", Origin(), AT)
    assert one.key == '{"id":{"S":"a"},"at":{"N":"1"}}'  # written in any case


@pytest.mark.case("R-08")
def test_a_user_record_keeps_its_place_in_its_aggregate() -> None:
    numbers = pa.array([3], pa.int64())
    field = SUB_SEQUENCE
    arrow = page(("a", 9))
    arrow = pa.RecordBatch.from_arrays([*arrow.columns, numbers], schema=arrow.schema.append(field))
    (one,) = letters_for(ShardBatch(SHARD, Fence(1, 1), arrow), "odd", ORIGIN, AT)
    assert one.id == f"billing/orders/{SHARD}/9/3"
    assert one.place == (9, 3)
    assert records_of_letters([one]) == arrow


@pytest.mark.case("X-19")
@given(size=st.integers(0, 30_000), most=st.integers(4_000, 12_000), order=st.randoms())
def test_a_letter_of_any_size_fits_in_parts_and_comes_together_in_any_order(
    size: int, most: int, order: object
) -> None:
    one = letter(b"\xff" * size)
    lines = in_parts(one, most)
    assert all(len(line) <= most for line in lines)
    assert (len(lines) == 1) == (len(one.to_bytes()) <= most)
    order.shuffle(lines)  # type: ignore[attr-defined]
    assert assembled(lines) == [one]
    if len(lines) > 1:
        assert assembled(lines[1:]) == []


@pytest.mark.case("X-19")
@given(cut=st.integers(1, 300), flip=st.integers(0, 300))
def test_damage_is_never_taken_for_a_letter(cut: int, flip: int) -> None:
    whole = letter(b"data").to_bytes()
    torn, glued = whole[:-cut], whole[:-cut] + whole
    flipped = bytearray(whole)
    flipped[flip % len(whole)] ^= 1
    for damaged in (torn, glued, bytes(flipped), whole + whole, b"{}", b'{"no": 1}', b"\0" * 40):
        assembly = Assembly()
        assert assembly.add(damaged) is None
        assert (assembly.letters(), assembly.unreadable) == ([], 1)


def test_a_letter_written_again_replaces_the_older_one_in_any_order() -> None:
    old, new = letter(fence=Fence(4, 7)), letter(fence=Fence(5, 1), reason="again")
    for lines in ([old, new], [new, old], [new, old, new]):
        assert assembled(one.to_bytes() for one in lines) == [new]


def test_a_letter_that_was_redriven_waits_no_longer_unless_it_was_written_again_since() -> None:
    old, new = letter(fence=Fence(4, 7)), letter(fence=Fence(5, 1))
    first, mark, second = (one.to_bytes() for one in (old, Redriven(old.id, old.fence), new))
    for lines in ([first, mark], [mark, first]):
        assert assembled(lines) == []
    for lines in ([first, mark, second], [second, mark, first], [first, second, mark]):
        assert assembled(lines) == [new]


def test_letters_wait_in_the_order_in_which_their_records_were_written() -> None:
    records = page(("b", 10), ("a", 9), ("a", 100))
    letters = list(letters_for(ShardBatch(SHARD, Fence(1, 1), records), "odd", ORIGIN, AT))
    waiting = assembled(one.to_bytes() for one in letters)
    assert [one.sequence_number for one in waiting] == ["9", "10", "100"]


def test_a_bounded_assembly_keeps_the_newest() -> None:
    assembly = Assembly(most=2)
    for number in range(5):
        assembly.add(replace(letter(), id=str(number)).to_bytes())
    assert [one.id for one in assembly.newest()] == ["3", "4"]


def test_a_reason_of_any_length_is_cut() -> None:
    assert len(letter(reason="x" * 1_000_000).reason) == LONGEST_REASON
