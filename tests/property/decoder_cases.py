"""Bodies of GetRecords, whole and damaged, and what the decoders must agree on.

A case is made from a seed. The tests run some thousands; `make fuzz` runs more, and compares with
cbor2 too.
"""

from __future__ import annotations

import base64
import json
import math
import random
import re
import struct
from datetime import UTC, timedelta
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import botocore.session
import msgspec
from botocore.parsers import create_parser

from shardline.services.wire import cbor
from shardline.services.wire import kinesis as wire_kinesis
from shardline.services.wire.dynamodb import decode_dynamodb
from shardline.services.wire.kinesis import decode_kinesis, decode_simply
from shardline.services.wire.vectors_cbor import decode_alike_cbor

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.wire.answer import RecordsAnswer

# A dependency of `make fuzz` alone.
cbor2: Any = import_module("cbor2") if find_spec("cbor2") else None

FIELDS = ["Data", "PartitionKey", "SequenceNumber", "ApproximateArrivalTimestamp"]
JSON_PIECES = [
    *(b"nan", b"NaN", b"-1", b"+1", b"01", b".5", b"5.", b"1e400", b"1e12", b"1E9", b"1_0", b"0x1"),
    *(b"AA=A", b"AB==", b"A===", b"====", b"AAAA", b"A A=", b"", b"null", b"true", b"{}", b"[]"),
    *(
        b'"',
        b"\\",
        b"\\u0041",
        b"\\ud800",
        b"\xff",
        b"\xed\xa0\x80",
        b"\x00",
        b"\n",
        b" ",
        b"9" * 30,
    ),
    *(
        b'"Records":[',
        b'"Records":[]',
        b'},{"Data":"AAAA"',
        b',"Records":[]',
        b"[" * 3000,
        b"e",
        b".",
    ),
    *(
        b'"Data":"AAAA",',
        b'"SequenceNumber":"7",',
        b'"SequenceNumber":"x"',
        b"-",
        b"99999999999999",
    ),
]
_VALUE = re.compile(rb'(?<="Data":")[^"]*|(?<=Timestamp":)[^,}]*|(?<="SequenceNumber":")[^"]*')
CBOR_PIECES = [
    *(b"\x5b" + b"\xff" * 8, b"\x7b" + b"\x7f" * 8, b"\x9b" + b"\xff" * 8, b"\xbb" + b"\x80" * 8),
    *(b"\xc1", b"\xc2", b"\xf6", b"\xf5", b"\xf8\x20", b"\xff", b"\x00", b"\x1c", b"\x9f" * 2000),
    *(b"\xfb" + struct.pack(">d", float("nan")), b"\xfb" + struct.pack(">d", 1e300), b"\x3b" * 9),
    *(
        b"\xc1\x1b" + b"\xff" * 8,
        b"\xc1\x1b\x00\x00\xff\xff\xff\xff\xff\xff",
        b"\x61\xff",
        b"\xed\xa0\x80",
    ),
    *(b"gRecords\x80", b"\x80", b"\xa0", b"\x7f", b"\x5f", b"a9", b"dData", b"\x18\x40", b"\x19"),
]
PARSER = create_parser("json")
MODELS = {
    name: botocore.session.Session().get_service_model(name)
    for name in ("kinesis", "dynamodbstreams")
}


_SECONDS = {1: lambda number, _: number / 1000}
"""Kinesis sends times in milliseconds, which the tag does not mean."""


class Disagreement(AssertionError):
    """Two decoders say different things about one body."""


def check(seed: int) -> None:
    """Make the case of this seed and compare all decoders on it."""
    draw = random.Random(seed)
    kind = draw.choice(["json", "json", "cbor", "cbor", "dynamodb"])
    if kind == "dynamodb":
        _check_dynamodb(damaged_bytes(draw, json.dumps(_changes(draw)).encode(), JSON_PIECES))
        return
    answer = _answer(draw)
    if kind == "json":
        spaced = draw.random() < 0.1
        text = json.dumps(
            _in_json(answer),
            ensure_ascii=draw.random() < 0.3,
            separators=None if spaced else (",", ":"),
        )
        damage = _other_value if draw.random() < 0.3 else damaged_bytes
        body = damage(draw, text.encode(), JSON_PIECES)
    else:
        body = damaged_bytes(draw, cbor.encode(answer), CBOR_PIECES)
    fast, simple = _outcome(decode_kinesis, body), _outcome(decode_simply, body)
    if fast != simple:
        raise Disagreement(f"seed {seed}: {body!r}\nfast:   {fast}\nsimple: {simple}")
    if simple is not None:
        simple.records.validate(full=True)
        simple.records.to_pylist()  # every value can be shown
        if kind == "json":
            _compare_with_botocore(body, simple)
        else:
            _compare_with_reference(body, simple)


def _outcome(decode: Callable[[bytes], RecordsAnswer], body: bytes) -> RecordsAnswer | None:
    try:
        return decode(body)
    except msgspec.DecodeError:
        return None  # any other exception is a mistake, and is not caught


# --- making bodies ---------------------------------------------------------------------------


def _other_value(draw: random.Random, body: bytes, pieces: list[bytes]) -> bytes:
    """Return a body with a piece in the place of one value; the rest suits the fast way."""
    places = [found.span() for found in _VALUE.finditer(body)]
    begin, end = draw.choice(places or [(0, 0)])
    return body[:begin] + draw.choice(pieces[:23]) + body[end:]  # numbers and base64


def _record(draw: random.Random, number: int, digits: int) -> dict[str, Any]:
    size = draw.choice([0, 1, 2, 3, 4, 23, 24, 30, 255, 256, 300])
    return {
        "Data": draw.randbytes(size),
        "PartitionKey": draw.choice(
            ["k", "ключ", "a\\b", 'q"', "", "\t", "x" * 30, "}]", '"Records":[']
        ),
        "SequenceNumber": f"{number:0{digits}}",
        "ApproximateArrivalTimestamp": cbor.Milliseconds(draw.randrange(4 * 10**12)),
    }


def _answer(draw: random.Random) -> dict[str, Any]:
    order = draw.sample(FIELDS, 4)
    digits = draw.choice([1, 21, 56])
    alike = draw.random() < 0.7
    records = [_record(draw, n, digits) for n in range(draw.choice([0, 1, 2, 5, 30]))]
    if alike:
        for record in records:
            record["PartitionKey"] = "key" if draw.random() < 0.9 else record["PartitionKey"]
            record["Data"] = record["Data"] or b"x"
    records = [{name: record[name] for name in order} for record in records]
    if draw.random() < 0.2:
        for record in records:
            record["EncryptionType"] = "KMS"
    answer: dict[str, Any] = {"Records": records}
    if draw.random() < 0.9:
        answer["NextShardIterator"] = draw.choice([None, "AAA", 'with "quotes"'])
    if draw.random() < 0.9:
        answer["MillisBehindLatest"] = draw.choice([0, 7, 10**9])
    if draw.random() < 0.2:
        answer["Unknown"] = draw.choice(
            ["x", [1, {"Records": []}], {"Records": records}, 1.5, True]
        )
    return dict(draw.sample(list(answer.items()), len(answer)))


def _changes(draw: random.Random) -> dict[str, Any]:
    records = [
        {
            "eventID": "1",
            "eventName": "INSERT",
            "eventVersion": "1.1",
            "dynamodb": {
                "Keys": {"id": {"S": draw.choice(["a", 'quo"ted', "ü"])}},
                "NewImage": {"n": {"N": "1.5"}},
                "SequenceNumber": f"{n:021}",
                "ApproximateCreationDateTime": draw.randrange(4 * 10**9),
                "SizeBytes": draw.choice([1, 10**6]),
            },
        }
        for n in range(draw.choice([0, 1, 3]))
    ]
    return {"Records": records, "NextShardIterator": "A"}


def _in_json(value: Any) -> Any:
    match value:
        case cbor.Milliseconds():
            return int(value) / 1000
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {name: _in_json(each) for name, each in value.items()}
        case list():
            return [_in_json(each) for each in value]
    return value


def damaged_bytes(draw: random.Random, body: bytes, pieces: list[bytes]) -> bytes:
    for _ in range(draw.choice([0, 0, 1, 1, 1, 2, 5])):
        start = draw.randrange(len(body) + 1)
        match draw.randrange(5):
            case 0:
                body = body[:start] + bytes([draw.randrange(256)]) + body[start + 1 :]
            case 1:
                body = body[:start] + draw.choice(pieces) + body[start:]
            case 2:
                body = body[:start] + draw.choice(pieces) + body[start + draw.randrange(1, 12) :]
            case 3:
                stop = min(len(body), start + draw.randrange(60))
                body = body[:stop] + body[start:stop] + body[stop:]
            case 4:
                body = body[:start] + body[start + draw.choice([1, 1, 4, len(body)]) :]
    return body


# --- what others make of them ----------------------------------------------------------------


def _parsed(service: str, body: bytes) -> dict[str, Any] | None:
    """Return what botocore reads, or None if a text is no UTF-8: in a member that nobody reads."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return None
    shape = MODELS[service].operation_model("GetRecords").output_shape
    parsed: dict[str, Any] = PARSER.parse({"body": body, "status_code": 200, "headers": {}}, shape)
    return parsed


def _compare_with_botocore(body: bytes, answer: RecordsAnswer) -> None:
    parsed = _parsed("kinesis", body)
    if parsed is None:
        return
    rows = answer.records.to_pylist()
    if len(rows) != len(parsed["Records"]) or answer.next_iterator != parsed.get(
        "NextShardIterator"
    ):
        raise Disagreement(f"botocore: {body!r}")
    for row, record in zip(rows, parsed["Records"], strict=True):
        away = row["approximateArrivalTimestamp"] - record[
            "ApproximateArrivalTimestamp"
        ].astimezone(UTC)
        if (
            row["data"] != record["Data"]
            or row["partitionKey"] != record["PartitionKey"]
            or row["sequenceNumber"] != record["SequenceNumber"]
            or abs(away) > timedelta(microseconds=1)  # botocore does not round
        ):
            raise Disagreement(f"botocore: {body!r}\n{row}\n{record}")


def _check_dynamodb(body: bytes) -> None:
    answer = _outcome(decode_dynamodb, body)
    if answer is None:
        return
    answer.records.validate(full=True)
    try:
        parsed = _parsed("dynamodbstreams", body)
    except (AttributeError, TypeError, ValueError):
        return  # in an image, which stays text here
    if parsed is None:
        return
    numbers = [record["dynamodb"]["SequenceNumber"] for record in parsed["Records"]]
    keys = [json.loads(text) for text in answer.records.column("keys").to_pylist()]
    if answer.records.column("sequenceNumber").to_pylist() != numbers or len(keys) != len(numbers):
        raise Disagreement(f"botocore: {body!r}")


def _comparable(value: Any) -> Any:
    """Return a value with null for "undefined", which cbor2 tells from it, and one NaN for all."""
    if isinstance(value, dict):
        return {_comparable(k): _comparable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return None if value is cbor2.undefined else value


def _compare_with_reference(body: bytes, answer: RecordsAnswer) -> None:
    """Compare with a decoder that follows RFC 8949 step by step, and with cbor2 if it is there."""
    value, rest = _reference(body)
    if cbor2 is not None:
        theirs = cbor2.loads(body, semantic_decoders=_SECONDS, max_depth=2000)
        if _comparable(theirs) != _comparable(value):
            raise Disagreement(f"cbor2: {body!r}\n{value}")
    rows = answer.records.to_pylist()
    if (
        rest
        or value.get("NextShardIterator") != answer.next_iterator
        or len(rows) != len(value["Records"])
    ):
        raise Disagreement(f"CBOR: {body!r}\n{value}\n{rows}")
    for row, record in zip(rows, value["Records"], strict=True):
        data = record["Data"]
        if isinstance(data, str):  # as kinesalite sends it
            data = base64.b64decode(data)
        seconds = row["approximateArrivalTimestamp"].timestamp()
        if (
            row["data"] != data
            or row["partitionKey"] != record["PartitionKey"]
            or row["sequenceNumber"] != record["SequenceNumber"]
            or abs(seconds - record["ApproximateArrivalTimestamp"]) > 1e-3
        ):
            raise Disagreement(f"CBOR: {body!r}\n{row}\n{record}")


def _reference(text: bytes) -> tuple[Any, bytes]:
    kind, info = text[0] >> 5, text[0] & 31
    rest = text[1:]
    number = info
    if info in (24, 25, 26, 27):
        size = {24: 1, 25: 2, 26: 4, 27: 8}[info]
        number, rest = int.from_bytes(rest[:size], "big"), rest[size:]
    endless = info == 31
    match kind:
        case 0:
            return number, rest
        case 1:
            return -1 - number, rest
        case 2 | 3:
            data = b""
            if endless:
                while rest[0] != 0xFF:
                    piece, rest = _reference(rest)
                    data += piece if kind == 2 else piece.encode()
                rest = rest[1:]
            else:
                data, rest = rest[:number], rest[number:]
            return (data if kind == 2 else data.decode()), rest
        case 4 | 5:
            items: list[Any] = []
            while (rest[0] != 0xFF) if endless else (len(items) < number * (kind - 3)):
                item, rest = _reference(rest)
                items.append(item)
            rest = rest[1:] if endless else rest
            return (items if kind == 4 else dict(zip(items[::2], items[1::2], strict=True))), rest
        case 6:
            value, rest = _reference(rest)
            return value / 1000, rest
    if info in (25, 26, 27):
        form = {25: ">e", 26: ">f", 27: ">d"}[info]
        return struct.unpack(form, number.to_bytes(struct.calcsize(form), "big"))[0], rest
    return {20: False, 21: True, 22: None, 23: None}[info], rest


def use_fast_ways_for_all_sizes(set_attribute: Callable[[object, str, object], None]) -> None:
    """Make `decode_kinesis` decode all at once whenever it can, however small a body is."""
    set_attribute(wire_kinesis, "_holds_many", lambda _: True)
    set_attribute(wire_kinesis, "decode_alike_cbor", partial(decode_alike_cbor, at_least=0))
