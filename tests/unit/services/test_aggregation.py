"""Aggregated records are split as AWS's libraries do, in memory that their size bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.positions import After
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber
from shardline.services import aggregation
from shardline.services.aggregation import split_aggregated
from shardline.services.log_limits import LogLimit
from shardline.services.wire import protobuf
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS
from tests.unit.services.kpl import (
    AWS_DIGESTS,
    MAGIC,
    UserRecord,
    aggregate,
    digest_of,
    hash_key,
    numbered,
    samples,
    signed,
    sized,
    varint,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

WHEN = datetime(2026, 11, 15, tzinfo=UTC)


def page(*data: bytes) -> pa.RecordBatch:
    rows = [
        {
            "partitionKey": "outer",
            "data": item,
            "sequenceNumber": str(n),
            "approximateArrivalTimestamp": WHEN,
        }
        for n, item in enumerate(data)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=KINESIS_COLUMNS)


Row = tuple[str, bytes, str, int | None]


def seen(records: pa.RecordBatch) -> list[Row]:
    records.validate(full=True)
    return [
        (row["partitionKey"], row["data"], row["sequenceNumber"], row["subSequenceNumber"])
        for row in records.to_pylist()
    ]


def expected(
    records: Iterable[UserRecord], number: str
) -> list[tuple[str, bytes, str, int | None]]:
    return [(record.key, record.data, number, n) for n, record in enumerate(records)]


USER_RECORDS = st.lists(
    st.builds(
        UserRecord,
        st.text(max_size=20),
        st.binary(max_size=300),
        st.none() | st.integers(0, HASH_SPACE_END).map(str),
    ),
    min_size=1,
    max_size=150,
)


@pytest.mark.case("X-26")
@pytest.mark.parametrize("name", samples())
def test_what_aws_s_own_aggregator_writes_is_split_at_every_size(name: str) -> None:
    records = samples()[name]
    written = aggregate(records)
    assert digest_of(written) == AWS_DIGESTS[name]
    assert seen(split_aggregated(page(b"before", written, b"after"))) == [
        ("outer", b"before", "0", None),
        *expected(records, "1"),
        ("outer", b"after", "2", None),
    ]


@pytest.mark.case("R-08", "X-26")
@given(first=USER_RECORDS, second=USER_RECORDS, plain=st.binary(max_size=50))
def test_user_records_come_in_order_with_their_number(
    first: list[UserRecord], second: list[UserRecord], plain: bytes
) -> None:
    whole = page(b"skipped", aggregate(first), b"plain" + plain, aggregate(second))
    rows = [
        *expected(first, "1"),
        ("outer", b"plain" + plain, "2", None),
        *expected(second, "3"),
    ]
    assert seen(split_aggregated(whole.slice(1))) == rows


@pytest.mark.case("X-26")
@given(USER_RECORDS, st.randoms(use_true_random=False))
def test_fields_in_another_order_and_unknown_ones_are_read_over(
    records: list[UserRecord], draw: random.Random
) -> None:
    keys = list(dict.fromkeys(record.key for record in records))
    parts = [sized(1, key.encode()) for key in keys]
    for record in records:
        inside = [numbered(1, keys.index(record.key)), sized(3, record.data)]
        inside += [sized(4, b"a tag"), numbered(9, 2**40), varint(10 << 3 | 1) + b"8 bytes!"]
        draw.shuffle(inside)
        parts.append(sized(3, b"".join(inside)))
    parts.append(varint(77 << 3 | 5) + b"four")
    assert seen(split_aggregated(page(signed(b"".join(parts))))) == expected(records, "0")


TWO = [UserRecord("a", b"1"), UserRecord("b", b"2", "7")]
GROUP, GROUP_END = varint(5 << 3 | 3), varint(5 << 3 | 4)
ODD_FIELDS = (
    GROUP + GROUP_END,
    GROUP + sized(1, b"z") + varint(9 << 3 | 3) + varint(9 << 3 | 4) + GROUP_END,
    varint(5 << 3) + b"\xff" * 9 + b"\x7f",
)


@pytest.mark.case("X-26")
@pytest.mark.parametrize("many", [1, 100], ids=["one by one", "all at once"])
@pytest.mark.parametrize(
    "odd", ODD_FIELDS, ids=["a group", "nested groups", "a number of ten bytes"]
)
def test_odd_fields_are_read_over_as_protobuf_does(odd: bytes, many: int) -> None:
    records = TWO * many
    message = aggregate(records)[4:-16]
    inside = sized(3, numbered(1, 0) + odd + sized(3, b"x"))
    for each in (odd + message, message + odd):
        assert seen(split_aggregated(page(signed(each)))) == expected(records, "0")
    rows = expected([*records, UserRecord("a", b"x")], "0")
    assert seen(split_aggregated(page(signed(message + inside)))) == rows


@pytest.mark.case("X-26")
@pytest.mark.parametrize("many", [1, 200], ids=["one by one", "all at once"])
def test_a_tag_or_number_with_idle_bytes_means_the_same(many: int) -> None:
    first = b"\x8a\x00" + sized(1, b"z")[1:]  # the tag 0x0A in two bytes
    zero = b"\x08" + b"\x80" * 9 + b"\x1a"  # a zero in ten; the last byte looks like the next tag
    record = sized(3, zero + sized(3, b"x"))
    message = first + sized(1, b"a") + record * many
    rows = expected([UserRecord("z", b"x")] * many, "0")
    assert seen(split_aggregated(page(signed(message)))) == rows


@given(USER_RECORDS)
def test_all_at_once_and_one_by_one_read_the_same(records: list[UserRecord]) -> None:
    message = aggregate(records)[len(MAGIC) : -16]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protobuf, "_FEW", 10**9)
        one_by_one = protobuf.read_message(message)
        patch.setattr(protobuf, "_FEW", 0)
        patch.setattr(protobuf, "_one_by_one", None)  # the other way must not be taken
        at_once = protobuf.read_message(message)
    assert at_once.keys == one_by_one.keys
    assert at_once.hash_keys == one_by_one.hash_keys
    for left, right in zip(at_once[2:], one_by_one[2:], strict=True):
        assert left.tolist() == right.tolist()


def test_all_at_once_takes_what_producers_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "_FEW", 0)
    monkeypatch.setattr(protobuf, "_one_by_one", None)  # the other way must not be taken
    for records in samples().values():
        assert seen(split_aggregated(page(aggregate(records)))) == expected(records, "0")


def test_ordinary_records_are_only_numbered() -> None:
    records = page(b"", b"x" * 40, MAGIC, MAGIC + b"x" * 16)
    numbered_ = split_aggregated(records)
    assert numbered_.columns[:-1] == records.columns
    assert numbered_.column("subSequenceNumber").to_pylist() == [None] * 4
    assert split_aggregated(page()).num_rows == 0
    changes = pa.RecordBatch.from_pylist([], schema=DYNAMODB_COLUMNS)
    assert split_aggregated(changes) is changes


# --- what is damaged or made to do harm ------------------------------------------------------


DAMAGED = {
    "another digest": aggregate(TWO, b"0" * 16),
    "no message": MAGIC + b"\xff" * 30,
    "zeros": MAGIC + b"\x00" * 40,
    "no user records": signed(sized(1, b"a")),
    "no key": signed(sized(1, b"a") + sized(3, sized(3, b"x"))),
    "no data": signed(sized(1, b"a") + sized(3, numbered(1, 0))),
    "a key that is not there": signed(sized(1, b"a") + sized(3, numbered(1, 1) + sized(3, b"x"))),
    "a hash key that is not there": signed(
        sized(1, b"a") + sized(3, numbered(1, 0) + numbered(2, 0) + sized(3, b"x"))
    ),
    "a key of bad UTF-8": signed(sized(1, b"\xff") + sized(3, numbered(1, 0) + sized(3, b"x"))),
    "a hash key of letters": signed(sized(2, b"x") + sized(1, b"a") + aggregate(TWO)[4:-16]),
    "a long hash key": signed(sized(2, b"1" * 5000) + aggregate(TWO)[4:-16]),
    "data that is too long": signed(
        sized(1, b"a") + sized(3, numbered(1, 0) + varint(3 << 3 | 2) + varint(200) + b"x")
    ),
    "a field that is too long": signed(aggregate(TWO)[4:-16] + varint(3 << 3 | 2) + varint(9)),
    "a number that is too long": signed(b"\x08" + b"\xff" * 12),
    "a field without a number": signed(aggregate(TWO)[4:-16] + b"\x00\x00"),
    "a field whose number is too large": signed(aggregate(TWO)[4:-16] + varint(1 << 32) + b"\x00"),
    "a group without an end": signed(aggregate(TWO)[4:-16] + GROUP),
    "a group with the end of another": signed(aggregate(TWO)[4:-16] + GROUP + varint(6 << 3 | 4)),
    "an end without a group": signed(aggregate(TWO)[4:-16] + GROUP_END),
    "groups that are too deep": signed(aggregate(TWO)[4:-16] + GROUP * 200 + GROUP_END * 200),
    "a key's number over int64": signed(
        sized(1, b"a") + sized(3, varint(8) + varint((1 << 64) - 1) + sized(3, b"x"))
    ),
    "cut": signed(aggregate(TWO)[4:-17]),
}


@pytest.mark.case("R-08")
@pytest.mark.parametrize("name", DAMAGED)
def test_what_only_looks_aggregated_is_delivered_whole_and_said(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregation, "_log_limit", LogLimit())
    broken = DAMAGED[name]
    records = split_aggregated(page(b"before", broken, b"after"))
    assert [row[1] for row in seen(records)] == [b"before", broken, b"after"]
    assert caplog.text.count("record 1 looks aggregated") == 1


@given(st.binary(max_size=80), st.integers(0, 200), st.integers(0, 255))
def test_any_bytes_are_split_or_delivered_whole(message: bytes, place: int, byte: int) -> None:
    changed = bytearray(aggregate(TWO * 20)[4:-16])
    changed[place % len(changed)] = byte
    for each in (message, bytes(changed)):
        for few in (0, 100):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(protobuf, "_FEW", few)
                assert seen(split_aggregated(page(signed(each))))


def test_the_checksum_can_be_left_unchecked() -> None:
    data = aggregate([UserRecord("a", b"1"), UserRecord("a", b"2")], b"0" * 16)
    assert len(seen(split_aggregated(page(data), verify=False))) == 2


def bomb(key: str, count: int, data: bytes = b"") -> bytes:
    user_record = sized(3, numbered(1, 0) + sized(3, data))
    return signed(sized(1, key.encode()) + user_record * count)


@pytest.mark.case("X-26")
@pytest.mark.parametrize(
    "record",
    [bomb("k" * 500_000, 80_000), bomb("k" * 256, 150_000), bomb("ж" * 256, 40_000)],
    ids=["a key of 500 kB", "a key of 256 B", "a key of 256 letters"],
)
def test_a_record_made_to_fill_memory_is_delivered_whole(record: bytes) -> None:
    before = pa.total_allocated_bytes()
    records = split_aggregated(page(record))
    assert records.num_rows == 1
    assert pa.total_allocated_bytes() - before < 4 * len(record)


@pytest.mark.case("X-26")
def test_tiny_user_records_are_split_within_the_bound() -> None:
    record = bomb("order-4711", 100_000, b"x")
    records = split_aggregated(page(record))
    assert records.num_rows == 100_000
    assert records.nbytes < 33 * len(record)


# --- where to begin, and which keys ----------------------------------------------------------


@pytest.mark.case("R-08")
def test_a_position_within_an_aggregated_record_leaves_out_what_was_delivered() -> None:
    whole = page(aggregate([UserRecord("k", bytes([n])) for n in range(5)]), b"plain")

    def left(after: After) -> list[bytes]:
        return [row[1] for row in seen(split_aggregated(whole, after))]

    zero = SequenceNumber("0")
    assert left(After(zero, 2)) == [b"\x03", b"\x04", b"plain"]
    assert left(After(zero, 4)) == [b"plain"]
    assert left(After(zero, -1)) == [b"\x00", b"\x01", b"\x02", b"\x03", b"\x04", b"plain"]
    assert len(left(After(zero))) == 6
    assert len(left(After(SequenceNumber("9"), 2))) == 6
    plain = page(b"one", b"two")
    assert [r[1] for r in seen(split_aggregated(plain, After(zero, 0)))] == [b"two"]


HALF = (HASH_SPACE_END + 1) // 2
LOW, HIGH = HashRange(0, HALF - 1), HashRange(HALF, HASH_SPACE_END)
LOW_KEY = next(key for key in map(str, range(99)) if int(hash_key(key)) in LOW)
HIGH_KEY = next(key for key in map(str, range(99)) if int(hash_key(key)) in HIGH)


@pytest.mark.case("X-13")
@pytest.mark.parametrize("many", [1, 200])
def test_a_record_with_a_key_of_another_shard_is_dropped_as_the_kcl_does(many: int) -> None:
    low = aggregate([UserRecord(LOW_KEY, b"a")] * many)
    mixed = aggregate([UserRecord(LOW_KEY, b"a"), UserRecord(HIGH_KEY, b"b")] * many)
    explicit = aggregate([UserRecord(LOW_KEY, b"a", str(HALF))] * many)
    whole = page(low, mixed, b"plain", explicit)
    assert split_aggregated(whole).num_rows == 4 * many + 1
    assert seen(split_aggregated(whole, shard_range=LOW)) == [
        *expected([UserRecord(LOW_KEY, b"a")] * many, "0"),
        ("outer", b"plain", "2", None),
    ]
    assert [row[1] for row in seen(split_aggregated(page(mixed), shard_range=HIGH))] == []
    assert split_aggregated(page(explicit), shard_range=HIGH).num_rows == many
