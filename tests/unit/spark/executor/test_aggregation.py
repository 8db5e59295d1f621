"""Aggregated records are taken apart, and nothing is dropped on the way."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.services.wire.columns import KINESIS_COLUMNS
from shardline.spark.executor.aggregation import MAGIC, take_apart

WHEN = datetime(2026, 11, 15, tzinfo=UTC)
UserRecords = list[tuple[str, bytes]]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def aggregate(records: UserRecords, *, digest: bytes | None = None) -> bytes:
    """Write an aggregated record as the producer library's format says."""
    keys = list(dict.fromkeys(key for key, _ in records))
    message = b"".join(field(1, key.encode()) for key in keys)
    message += field(2, b"12345")  # an explicit hash key, which some producers add
    for key, data in records:
        inner = varint(1 << 3) + varint(keys.index(key)) + field(3, data)
        message += field(3, inner + varint(2 << 3) + varint(0))
    check = hashlib.md5(message, usedforsecurity=False).digest() if digest is None else digest
    return MAGIC + message + check


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


def seen(records: pa.RecordBatch) -> list[tuple[str, bytes, str, int]]:
    return [
        (row["partitionKey"], row["data"], row["sequenceNumber"], row["subSequenceNumber"])
        for row in records.to_pylist()
    ]


USER_RECORDS = st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=300)), min_size=1)


@pytest.mark.case("R-08")
@given(first=USER_RECORDS, second=USER_RECORDS, plain=st.binary(max_size=50))
def test_user_records_come_in_order_with_their_place(
    first: UserRecords, second: UserRecords, plain: bytes
) -> None:
    records = take_apart(page(aggregate(first), b"plain" + plain, aggregate(second)))
    expected = [(key, data, "0", n) for n, (key, data) in enumerate(first)]
    expected.append(("outer", b"plain" + plain, "1", 0))
    expected += [(key, data, "2", n) for n, (key, data) in enumerate(second)]
    assert seen(records) == expected


def test_ordinary_records_are_left_as_they_are() -> None:
    records = page(b"", b"x" * 40, MAGIC)
    assert take_apart(records) is records


def test_a_slice_of_a_page_is_taken_apart_rightly() -> None:
    whole = page(b"skipped", aggregate([("a", b"1"), ("b", b"2")]), b"last")
    assert [row[1] for row in seen(take_apart(whole.slice(1)))] == [b"1", b"2", b"last"]


@pytest.mark.case("R-08")
@pytest.mark.parametrize(
    "broken",
    [
        aggregate([("a", b"1")], digest=b"0" * 16),
        MAGIC + b"\xff" * 30,
        MAGIC + b"\x00" * 16,
    ],
)
def test_what_only_looks_aggregated_is_delivered_whole_and_said(
    broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    records = take_apart(page(b"before", broken, b"after"))
    assert [row[1] for row in seen(records)] == [b"before", broken, b"after"]
    assert "looks aggregated" in caplog.text


def test_the_checksum_can_be_left_unchecked() -> None:
    data = aggregate([("a", b"1"), ("a", b"2")], digest=b"0" * 16)
    assert len(seen(take_apart(page(data), verify=False))) == 2
