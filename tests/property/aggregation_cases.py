"""Aggregated records, whole and damaged: ours and AWS's own aggregator must agree on them.

AWS's library is a dependency of `make fuzz` alone.
"""

from __future__ import annotations

import random
import re
from typing import Any

from aws_kinesis_agg.aggregator import AggRecord
from aws_kinesis_agg.deaggregator import messages_pb2
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from shardline.core.writes.entries import make_entry
from shardline.services.aggregation import split_aggregated
from shardline.services.put.aggregate import aggregated
from shardline.services.wire import protobuf
from tests.unit.services.kpl import MAGIC, UserRecord, aggregate, hash_key, signed, varint
from tests.unit.services.test_aggregation import page, seen

KEYS = ("k", "key-2", "ключ", "x" * 127, "x" * 128, "y" * 256)
SIZES = (0, 1, 2, 50, 126, 127, 128, 129, 300)
Split = list[tuple[str, bytes]]


def check(seed: int) -> None:
    """Compare on what AWS writes, on what we write, and on a damaged message."""
    draw = random.Random(seed)
    records = [_record(draw) for _ in range(draw.choice((1, 2, 5, 40, 130)))]
    theirs = AggRecord(max_size=1 << 30)
    for record in records:
        theirs.add_user_record(record.key, record.data, record.hash_key)
    written = theirs.get_contents()[2]
    _require(written == aggregate(records), "AWS's aggregator writes other bytes")
    setattr(protobuf, "_FEW", draw.choice((0, 100)))  # noqa: B010 - a constant elsewhere
    wanted = [(record.key, record.data) for record in records]
    _require(_split(written) == wanted, "what AWS writes is split otherwise")
    one_key = [make_entry(KEYS[0], record.data, records[0].hash_key) for record in records]
    ours = aggregated(one_key)
    _require(_parsed(ours[len(MAGIC) : -16]) == [(e.key, e.data) for e in one_key], "what we write")
    message = _damaged(draw, written[len(MAGIC) : -16])
    found, parsed = _split(signed(message)), _parsed(message)
    whole = [("outer", signed(message))]
    agrees = found == (whole if parsed is None else parsed)
    agrees = agrees or (found == whole and _is_forbidden(message))
    _require(agrees, f"{message!r}: {found} {parsed}")


def _record(draw: random.Random) -> UserRecord:
    key = draw.choice(KEYS)
    return UserRecord(key, draw.randbytes(draw.choice(SIZES)), hash_key(key))


def _split(record: bytes) -> Split:
    return [(row[0], row[1]) for row in seen(split_aggregated(page(record)))]


def _parsed(message: bytes) -> Split | None:
    """Return what AWS's message definition reads; None if it cannot be one with user records."""
    parsed: Any = messages_pb2.AggregatedRecord()
    try:
        parsed.ParseFromString(message)
        if not parsed.IsInitialized():
            return None  # a field that must be there is not
        keys, hash_keys = parsed.partition_key_table, parsed.explicit_hash_key_table
        # What is no UTF-8 stays bytes there. Here it is refused, with keys that no stream takes.
        if any(len(key.encode().decode()) > 256 for key in keys):
            return None
        if not all(re.fullmatch("[0-9]{1,39}", number) for number in hash_keys):
            return None
        for record in parsed.records:
            if record.HasField("explicit_hash_key_index"):
                _ = hash_keys[record.explicit_hash_key_index]
        return [(keys[r.partition_key_index], bytes(r.data)) for r in parsed.records] or None
    except (AttributeError, DecodeError, IndexError, TypeError):
        return None


def _is_forbidden(message: bytes) -> bool:
    """Return true if a field has the number 0: Java refuses it everywhere, Python not in groups."""
    parsed: Any = messages_pb2.AggregatedRecord.FromString(message)
    return any(_has_number_zero(UnknownFieldSet(each)) for each in (parsed, *parsed.records))


def _has_number_zero(fields: Any) -> bool:
    return any(
        field.field_number == 0
        or (isinstance(field.data, UnknownFieldSet) and _has_number_zero(field.data))
        for field in fields
    )


def _damaged(draw: random.Random, message: bytes) -> bytes:
    changed = bytearray(message)
    for _ in range(draw.choice((1, 1, 2, 5))):
        place = draw.randrange(len(changed))
        match draw.randrange(4):
            case 0:
                changed[place] = draw.randrange(256)
            case 1:
                del changed[place : place + draw.choice((1, 1, 4, 30))]
            case 2:
                changed[place:place] = draw.randbytes(draw.choice((1, 2, 8)))
            case 3:
                place = draw.choice((0, place, len(changed)))
                changed[place:place] = _field(draw, 0)
        if not changed:
            break
    return bytes(changed)


def _field(draw: random.Random, depth: int) -> bytes:
    """Return a field that no producer writes: of any type, in more bytes than it needs."""
    number, kind = draw.choice((1, 2, 3, 4, 500)), draw.choice((0, 1, 2, 3, 3, 5))
    tag = _idle(draw, number << 3 | kind)
    if kind == 0:
        return tag + _idle(draw, draw.choice((0, 1, 200, 1 << 62, (1 << 64) - 1)))
    if kind == 3:
        inner = b"".join(
            _field(draw, depth + 1) for _ in range(draw.randrange(3 if depth < 4 else 1))
        )
        return tag + inner + varint(draw.choice((number, number, number, 7)) << 3 | 4)
    if kind == 2:
        content = draw.randbytes(draw.choice((0, 1, 130)))
        return tag + _idle(draw, len(content)) + content
    return tag + draw.randbytes(8 if kind == 1 else 4)


def _idle(draw: random.Random, number: int) -> bytes:
    """Return a varint, now and then with bytes at its end that add nothing."""
    written = bytearray(varint(number))
    for _ in range(draw.choice((0, 0, 0, 1, 3, 9))):
        written[-1] |= 0x80
        written.append(0)
    return bytes(written)


def _require(agrees: bool, what: str) -> None:
    if not agrees:
        raise AssertionError(what)
