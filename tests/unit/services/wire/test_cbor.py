"""CBOR bodies against JSON bodies and botocore's own parser: the same records must say the same."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
import msgspec
import pytest
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.shards import HashRange, Shard
from shardline.services.wire import cbor
from shardline.services.wire import kinesis as wire_kinesis
from shardline.services.wire.columns import KINESIS_COLUMNS
from shardline.services.wire.kinesis import decode_kinesis
from shardline.services.wire.vectors_cbor import decode_alike_cbor

FIELDS = ["SequenceNumber", "ApproximateArrivalTimestamp", "Data", "PartitionKey"]
SHAPE = (
    botocore.session.Session()
    .get_service_model("kinesis")
    .operation_model("GetRecords")
    .output_shape
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record(data: bytes, key: str, number: int, milliseconds: int, digits: int) -> dict[str, Any]:
    return {
        "Data": data,
        "PartitionKey": key,
        "SequenceNumber": f"{number:0{digits}}",
        "ApproximateArrivalTimestamp": cbor.Milliseconds(milliseconds),
    }


SIZES = st.sampled_from([0, 1, 23, 24, 255, 256, 300])
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
MARKER = b"\xa4nSequenceNumber"
LANDMARKS = (MARKER, b"x\x1bApproximateArrivalTimestamp\xc1\x1b")


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """Answers as servers give them: fields in any order, extra ones, data like records."""
    digits = draw(st.sampled_from([21, 56]))
    order = draw(st.permutations([*FIELDS, "EncryptionType"]))
    encrypted = draw(st.sampled_from(["all", "none", "some"]))
    records = []
    for n in range(draw(st.integers(0, 6))):
        data = draw(st.binary(min_size=1, max_size=3)) * draw(SIZES)
        if draw(st.integers(0, 9)) == 0:
            data += draw(st.sampled_from(LANDMARKS))
        size = digits + draw(st.sampled_from([0, 0, 0, 0, 1]))
        plain = record(data, draw(KEYS), n, draw(st.integers(0, 4 * 10**12)), size)
        full = plain | {"EncryptionType": "KMS"}
        has_it = encrypted == "all" or (encrypted == "some" and n % 2 == 0)
        records.append({name: full[name] for name in order if has_it or name in plain})
    answer = {"Records": records} | draw(
        st.fixed_dictionaries(
            {},
            optional={
                "NextShardIterator": st.sampled_from([None, "AAA=", MARKER.decode("latin-1")]),
                "MillisBehindLatest": st.integers(0, 10**9),
                "Unknown": st.sampled_from(["x", "gRecords", [1, {"Records": []}], -1.5, True]),
            },
        )
    )
    return {name: answer[name] for name in draw(st.permutations(sorted(answer)))}


def as_json(answer: dict[str, Any]) -> bytes:
    def plain(value: Any) -> Any:
        match value:
            case cbor.Milliseconds():
                return int(value) / 1000
            case bytes():
                return base64.b64encode(value).decode()
            case dict():
                return {name: plain(each) for name, each in value.items()}
            case list():
                return [plain(each) for each in value]
        return value

    return json.dumps(plain(answer)).encode()


def without_ends(value: Any, pieces: int = 0) -> bytes:
    """Write maps and arrays, and long texts in pieces, as Jackson does: till a break."""
    match value:
        case dict():
            inside = b"".join(
                cbor.encode(name) + without_ends(each, pieces) for name, each in value.items()
            )
            return b"\xbf" + inside + b"\xff"
        case list():
            return b"\x9f" + b"".join(without_ends(each, pieces) for each in value) + b"\xff"
        case str() if pieces and len(value) > pieces:
            cut = [value[n : n + pieces] for n in range(0, len(value), pieces)]
            return b"\x7f" + b"".join(map(cbor.encode, cut)) + b"\xff"
    return cbor.encode(value)


def bodies_of(answer: dict[str, Any]) -> list[bytes]:
    return [cbor.encode(answer), without_ends(answer), without_ends(answer, pieces=20)]


@given(answers())
def test_cbor_json_and_botocore_say_the_same(answer: dict[str, Any]) -> None:
    text = as_json(answer)
    expected = decode_kinesis(text)
    parsed = create_parser("json").parse({"body": text, "status_code": 200, "headers": {}}, SHAPE)
    for body in bodies_of(answer):
        decoded = decode_kinesis(body)
        assert decoded.records.schema == KINESIS_COLUMNS
        assert decoded == expected
        rows = decoded.records.to_pylist()
        assert [row["data"] for row in rows] == [each["Data"] for each in parsed["Records"]]
        for row, each in zip(rows, parsed["Records"], strict=True):
            assert row["partitionKey"] == each["PartitionKey"]
            assert row["sequenceNumber"] == each["SequenceNumber"]
            # botocore makes a datetime of the double, which may be a microsecond off
            away = row["approximateArrivalTimestamp"] - each["ApproximateArrivalTimestamp"]
            assert abs(away) <= timedelta(microseconds=1)


@given(answers())
def test_all_at_once_decodes_the_same_or_declines(answer: dict[str, Any]) -> None:
    for body in bodies_of(answer):
        alike = decode_alike_cbor(body, at_least=0)
        if alike is not None:
            alike.batch.validate(full=True)
            assert alike.batch.equals(decode_kinesis(as_json(answer)).records)
            rest = cbor.decode(body[: alike.start] + b"\x80" + body[alike.stop :])
            assert rest == cbor.decode(body) | {"Records": []}


@pytest.mark.parametrize("write", [cbor.encode, without_ends])
@pytest.mark.parametrize("last", FIELDS)
def test_all_at_once_takes_what_a_server_usually_sends(write: Any, last: str) -> None:
    order = [name for name in FIELDS if name != last] + [last]
    sizes = [0, 1, 23, 24, 255, 256, 70_000]
    records = [record(b"\xa4" * size, f"ключ-{size}", size, size, 56) for size in sizes]
    in_order = [{name: each[name] for name in order} for each in records]
    for answer in ({"Records": in_order, "NextShardIterator": "A"}, {"Records": in_order}):
        alike = decode_alike_cbor(write(answer), at_least=0)
        assert alike is not None
        rows = alike.batch.to_pylist()
        assert [len(row["data"]) for row in rows] == sizes
        assert [row["partitionKey"] for row in rows] == [f"ключ-{size}" for size in sizes]
        assert [int(row["sequenceNumber"]) for row in rows] == sizes
        times = [row["approximateArrivalTimestamp"] for row in rows]
        assert times == [EPOCH + timedelta(milliseconds=size) for size in sizes]


@pytest.mark.parametrize("write", [cbor.encode, without_ends])
def test_all_at_once_declines_data_that_begins_like_a_record(write: Any) -> None:
    records = [record(b"x" * 30, "k", n, n, 56) for n in range(5)]
    records = [{name: each[name] for name in FIELDS} for each in records]
    records[2]["Data"] = write(records[1])
    body = write({"Records": records, "NextShardIterator": None})
    assert decode_alike_cbor(body, at_least=0) is None
    assert decode_kinesis(body).records.to_pylist()[2]["data"] == records[2]["Data"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\xc1\x1b", b"\xc2\x1b"),
        (b"\xc1\x1b\x00", b"\xc1\x1b\xff"),
        (b"dData", b"dDato"),
        (b"dData\x44", b"dData\x64"),
        (b"dData\x44", b"dData\x45"),
        (b"dData\x44", b"dData\x5b"),
        (b"lPartitionKeyak", b"lPartitionKeya\xff"),
        (b"lPartitionKeyak", b"lPartitionKeyAk"),
        (b"nSequenceNumberx80004", b"nSequenceNumberx8\xff004"),
    ],
)
def test_all_at_once_declines_what_is_wrong_with_one_record(old: bytes, new: bytes) -> None:
    records = [record(b"\xff" * 4, "k", n, n, 56) for n in range(5)]
    body = cbor.encode({"Records": records})
    assert decode_alike_cbor(body, at_least=0) is not None
    number = b"x8" + b"0" * 52
    broken = new.replace(b"x8", number).join(body.rsplit(old.replace(b"x8", number), 1))
    assert broken != body
    assert decode_alike_cbor(broken, at_least=0) is None


def test_all_at_once_declines_a_record_that_does_not_end() -> None:
    records = [record(b"\xff" * 4, "k", n, n, 56) for n in range(3)]
    body = without_ends({"Records": records})
    cut = body.index(without_ends(records[2])) - 1
    assert decode_alike_cbor(body, at_least=0) is not None
    assert decode_alike_cbor(body[:cut] + b"\xf6" + body[cut + 1 :], at_least=0) is None


def test_all_at_once_declines_a_first_record_that_is_written_otherwise() -> None:
    records = [record(b"\xff" * 4, "k", n, n, 56) for n in range(3)]
    records = [{name: each[name] for name in FIELDS} for each in records]
    body = without_ends({"Records": records}).replace(
        b"nSequenceNumberx8", b"nSequenceNumbery\x008", 1
    )
    assert decode_alike_cbor(body, at_least=0) is None
    assert decode_kinesis(body).records.num_rows == 3


def test_a_page_of_many_is_decoded_all_at_once_envelope_included(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [record(b"x", f"key-{n}", n, 1_700_000_000_000 + n, 56) for n in range(50)]
    child = {
        "ShardId": "shardId-000000000002",
        "ParentShards": ["shardId-000000000000", "shardId-000000000001"],
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "99"},
    }
    monkeypatch.setattr(wire_kinesis, "_columns", None)  # the other way must not be taken
    decoded = decode_kinesis(
        cbor.encode({"ChildShards": [child], "Records": records, "MillisBehindLatest": 7})
    )
    assert decoded.records.num_rows == 50
    assert decoded.behind_ms == 7
    assert decoded.next_iterator is None
    assert decoded.children == (
        Shard(
            "shardId-000000000002",
            ("shardId-000000000000", "shardId-000000000001"),
            HashRange(0, 99),
        ),
    )


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.binary()
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert cbor.decode(cbor.encode(value)) == value
    assert cbor.decode(without_ends(value, pieces=2)) == value


@given(VALUES, st.integers(0, 200))
def test_a_body_that_is_cut_short_is_an_error(value: Any, cut: int) -> None:
    body = cbor.encode({"value": value})
    with pytest.raises(msgspec.DecodeError):
        cbor.decode(body[: min(cut, len(body) - 1)])


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    for start in (b"", b"\xbf", b"\xbfgRecords\x9f", b"\xa1gRecords\x82\xa4nSequenceNumber"):
        try:
            decode_kinesis(b"\xa1" + start + body)
        except msgspec.DecodeError:
            continue


@pytest.mark.parametrize(
    "body", [b"\xa0\x00", b"\xa1\x01\x02", b"\x9f" * 10_000, b"\xff", b"\x1c", b"\xf8\x20"]
)
def test_what_is_not_expected_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        cbor.decode(body)
