"""The decoders against botocore's own parser: the same body must say the same."""

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
from shardline.services.wire import kinesis as wire_kinesis
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS
from shardline.services.wire.dynamodb import decode_dynamodb
from shardline.services.wire.kinesis import decode_kinesis
from shardline.services.wire.vectors_json import decode_alike

PARSER = create_parser("json")
SESSION = botocore.session.Session()
FIELDS = ["Data", "PartitionKey", "SequenceNumber", "ApproximateArrivalTimestamp"]


def parse(service: str, body: bytes) -> dict[str, Any]:
    shape = SESSION.get_service_model(service).operation_model("GetRecords").output_shape
    parsed: dict[str, Any] = PARSER.parse({"body": body, "status_code": 200, "headers": {}}, shape)
    return parsed


def kinesis_rows(parsed: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "partitionKey": record["PartitionKey"],
            "data": record["Data"],
            "sequenceNumber": record["SequenceNumber"],
            "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"].astimezone(UTC),
        }
        for record in parsed["Records"]
    ]


def record(data: bytes, key: str, number: int, milliseconds: int) -> dict[str, Any]:
    return {
        "Data": base64.b64encode(data).decode(),
        "PartitionKey": key,
        "SequenceNumber": str(number),
        "ApproximateArrivalTimestamp": milliseconds / 1000,
    }


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
RECORDS = st.builds(
    record,
    st.binary(max_size=30),
    KEYS,
    st.integers(0, 10**56),
    st.integers(1_000_000_000_000, 4_000_000_000_000),
)


@st.composite
def kinesis_bodies(draw: st.DrawFn) -> bytes:
    """Bodies as servers write them: keys in any order, spaces, escapes, fields extra or missing."""
    order = draw(st.permutations([*FIELDS, "EncryptionType"]))
    encrypted = draw(st.sampled_from(["all", "none", "some"]))
    records = []
    for number, plain in enumerate(draw(st.lists(RECORDS, max_size=8))):
        full = plain | {"EncryptionType": "KMS"}
        has_it = encrypted == "all" or (encrypted == "some" and number % 2 == 0)
        records.append({name: full[name] for name in order if has_it or name in plain})
    answer = {"Records": records} | draw(
        st.fixed_dictionaries(
            {},
            optional={
                "NextShardIterator": st.sampled_from([None, "AAA=", 'with "quotes"']),
                "MillisBehindLatest": st.integers(0, 10**9),
                "Unknown": st.sampled_from(["x", [1, {"Records": []}], '"Records":[']),
            },
        )
    )
    answer = {name: answer[name] for name in draw(st.permutations(sorted(answer)))}
    compact = draw(st.booleans())
    text = json.dumps(
        answer,
        ensure_ascii=draw(st.booleans()),
        separators=(",", ":") if compact else None,
        indent=None if compact else draw(st.sampled_from([None, 1])),
    )
    return text.encode()


@given(kinesis_bodies())
def test_kinesis_bodies_decode_as_botocore_parses_them(body: bytes) -> None:
    parsed = parse("kinesis", body)
    answer = decode_kinesis(body)
    assert answer.records.schema == KINESIS_COLUMNS
    assert answer.records.to_pylist() == kinesis_rows(parsed)
    assert answer.next_iterator == parsed.get("NextShardIterator")
    assert answer.behind_ms == parsed.get("MillisBehindLatest")


@given(kinesis_bodies())
def test_all_at_once_decodes_the_same_or_declines(body: bytes) -> None:
    alike = decode_alike(body)
    if alike is not None:
        alike.batch.validate(full=True)
        assert alike.batch.equals(decode_kinesis(body).records)
        rest = json.loads(body[: alike.start] + body[alike.stop :])
        assert rest == json.loads(body) | {"Records": []}


@pytest.mark.parametrize("last", FIELDS)
@pytest.mark.parametrize("sizes", [(3, 3, 3), (1, 2, 3, 4), (31,), (300, 2)])
def test_all_at_once_takes_what_a_server_usually_sends(last: str, sizes: tuple[int, ...]) -> None:
    order = [name for name in FIELDS if name != last] + [last]
    records = [record(b"\xff" * size, f"ключ-]}}{size}", 49 * size, size) for size in sizes]
    answer = {"Records": [{name: each[name] for name in order} for each in records]}
    for whole in (answer | {"NextShardIterator": "A"}, {"MillisBehindLatest": 1} | answer):
        body = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
        alike = decode_alike(body)
        assert alike is not None
        assert alike.batch.to_pylist() == kinesis_rows(parse("kinesis", body))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"Data":"/////w=="', b'"Data":"////=w=="'),
        (b'"Data":"/////w=="', b'"Data":"/////w="'),
        (b'"Data":"/////w=="', b'"Data":"====A==="'),
        (b'"Data":"/////w=="', b'"Dato":"/////w=="'),
        (b'"Data":"/////w=="', b'"Data":"////\xffw=="'),
        (b'"SequenceNumber":"4"', b'"SequenceNumber":4'),
        (b'"SequenceNumber":"4"', b'"SequenceNumber":null'),
        (b'"ApproximateArrivalTimestamp":0.004', b'"ApproximateArrivalTimestamp":null'),
        (b'"ApproximateArrivalTimestamp":0.004', b'"ApproximateArrivalTimestamp":"0.004"'),
        (b'"k","Seq', b'"k"?,"Seq'),
        (b"},{", b"};{"),
        (b"0.004}", b"0.004]"),
        (b"0.004}]", b"0.004}"),
    ],
)
def test_all_at_once_declines_what_is_wrong_with_one_record(old: bytes, new: bytes) -> None:
    records = [record(b"\xff" * 4, "k", number, number) for number in range(5)]
    body = json.dumps({"Records": records}, separators=(",", ":")).encode()
    assert decode_alike(body) is not None
    broken = new.join(body.rsplit(old, 1))
    assert broken != body
    assert decode_alike(broken) is None
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decode_kinesis(broken)


def test_all_at_once_declines_what_stands_behind_the_last_text_of_a_record() -> None:
    records = [record(b"x", "k", 1, 1)] * 2
    body = json.dumps(
        {"Records": [dict(reversed(each.items())) for each in records]}, separators=(",", ":")
    ).encode()
    assert decode_alike(body) is not None
    assert decode_alike(body.replace(b'"eA=="}]', b'"eA=="?}]')) is None


@pytest.mark.parametrize("key", ["é", "\\", 'a"', "\\\\", '"}]', '"},{"'])
@pytest.mark.parametrize("name", ["PartitionKey", "EncryptionType"])
@pytest.mark.parametrize("place", [1, 2])
def test_all_at_once_declines_escapes_in_any_record(key: str, name: str, place: int) -> None:
    records = [record(b"x", "k", n, n) | {"EncryptionType": "KMS"} for n in range(3)]
    records[place][name] = key
    body = json.dumps({"Records": records}, separators=(",", ":")).encode()
    assert decode_alike(body) is None
    assert decode_kinesis(body).records.to_pylist() == kinesis_rows(parse("kinesis", body))


def test_a_big_body_is_decoded_all_at_once_envelope_included(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [record(b"x" * 1000, f"key-{n}", n, 1_700_000_000_000 + n) for n in range(800)]
    child = {
        "ShardId": "shardId-000000000002",
        "ParentShards": ["shardId-000000000000", "shardId-000000000001"],
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "99"},
    }
    answer = {"ChildShards": [child], "Records": records, "MillisBehindLatest": 7}
    body = json.dumps(answer, separators=(",", ":")).encode()
    monkeypatch.setattr(wire_kinesis, "_columns", None)  # the other way must not be taken
    decoded = decode_kinesis(body)
    assert decoded.records.num_rows == 800
    assert decoded.behind_ms == 7
    assert decoded.next_iterator is None
    assert decoded.children == (
        Shard(
            "shardId-000000000002",
            ("shardId-000000000000", "shardId-000000000001"),
            HashRange(0, 99),
        ),
    )


@given(st.integers(0, 4_102_444_800_000))
def test_times_are_rounded_never_truncated(milliseconds: int) -> None:
    body = json.dumps({"Records": [record(b"", "k", 1, milliseconds)]}).encode()
    [row] = decode_kinesis(body).records.to_pylist()
    exact = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert row["approximateArrivalTimestamp"] == exact


@pytest.mark.case("R-05")
@pytest.mark.parametrize("decode", [decode_kinesis, decode_dynamodb])
@pytest.mark.parametrize("body", [b'{"Records":[]}', b'{"Records":[],"NextShardIterator":null}'])
def test_a_missing_next_iterator_and_a_null_one_both_mean_the_end(decode: Any, body: bytes) -> None:
    assert decode(body).next_iterator is None


# --- DynamoDB Streams ----------------------------------------------------------------------


IMAGES = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.sampled_from([{"S": 'quo"ted \\ ü'}, {"N": "1.5"}, {"M": {"a": {"NULL": True}}}]),
    max_size=3,
)
CHANGES = st.fixed_dictionaries(
    {
        "Keys": IMAGES,
        "SequenceNumber": st.integers(0, 10**40).map(lambda n: f"{n:021}"),
        "ApproximateCreationDateTime": st.integers(10**9, 4 * 10**9),
        "SizeBytes": st.integers(1, 10**6),
        "StreamViewType": st.just("NEW_AND_OLD_IMAGES"),
    },
    optional={"NewImage": IMAGES, "OldImage": IMAGES},
)
DYNAMODB_RECORDS = st.fixed_dictionaries(
    {
        "eventID": st.text("0123456789abcdef", min_size=1),
        "eventName": st.sampled_from(["INSERT", "MODIFY", "REMOVE"]),
        "eventVersion": st.just("1.1"),
        "eventSource": st.just("aws:dynamodb"),
        "awsRegion": st.just("eu-west-1"),
        "dynamodb": CHANGES,
    },
    optional={
        "userIdentity": st.just({"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"})
    },
)


@given(st.lists(DYNAMODB_RECORDS, max_size=5), st.booleans(), st.sampled_from([None, 1]))
def test_dynamodb_bodies_decode_as_botocore_parses_them(
    records: list[dict[str, Any]], escaped: bool, indent: int | None
) -> None:
    answer = {"Records": records, "NextShardIterator": "abc"}
    body = json.dumps(answer, ensure_ascii=escaped, indent=indent).encode()
    decoded = decode_dynamodb(body)
    assert decoded.next_iterator == "abc"
    assert decoded.records.schema == DYNAMODB_COLUMNS
    for row, parsed in zip(
        decoded.records.to_pylist(), parse("dynamodbstreams", body)["Records"], strict=True
    ):
        change = parsed["dynamodb"]
        assert row["eventID"] == parsed["eventID"]
        assert row["eventName"] == parsed["eventName"]
        assert row["eventVersion"] == parsed["eventVersion"]
        assert json.loads(row["keys"]) == change["Keys"]
        for column, field in (("oldImage", "OldImage"), ("newImage", "NewImage")):
            assert (row[column] and json.loads(row[column])) == change.get(field)
        assert row["sequenceNumber"] == change["SequenceNumber"]
        assert row["sizeBytes"] == change["SizeBytes"]
        created = change["ApproximateCreationDateTime"].astimezone(UTC)
        assert row["approximateCreationDateTime"] == created
        assert (row["userIdentity"] is None) == ("userIdentity" not in parsed)


def test_an_image_that_is_null_is_absent() -> None:
    change = {"Keys": {}, "SequenceNumber": "1", "ApproximateCreationDateTime": 1, "SizeBytes": 1}
    plain = {"eventID": "1", "eventName": "REMOVE", "eventVersion": "1.1"}
    body = json.dumps({"Records": [plain | {"dynamodb": change | {"NewImage": None}}]}).encode()
    [row] = decode_dynamodb(body).records.to_pylist()
    assert row["newImage"] is None
