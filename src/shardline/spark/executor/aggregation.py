"""Takes aggregated records of the Kinesis Producer Library apart into the user's own records.

One stream record then holds many user records as a protobuf message between four magic bytes and
its MD5. A record that only looks aggregated stays whole: nothing is ever dropped here, not even
user records whose key belongs to another shard by now.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final

import numpy as np
import pyarrow as pa

logger = logging.getLogger(__name__)

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES: Final = 16
_MAGIC_NUMBER: Final = int.from_bytes(MAGIC, "little")


def take_apart(records: pa.RecordBatch, *, verify: bool = True) -> pa.RecordBatch:
    """Return the records with each aggregated one replaced by its user records, numbered from 0."""
    aggregated = _look_aggregated(records.column("data"))
    if not aggregated:
        return records
    parts: list[pa.RecordBatch] = []
    done = 0
    for row in aggregated:
        user_records = _user_records(records.column("data")[row].as_buffer(), verify=verify)
        if user_records is None:
            logger.warning(
                "record %s looks aggregated but is not whole: delivered as it is",
                records.column("sequenceNumber")[row].as_py(),
            )
            continue
        parts.append(_numbered(records.slice(done, row - done)))
        parts.append(_spread(records.slice(row, 1), user_records))
        done = row + 1
    parts.append(_numbered(records.slice(done)))
    return pa.concat_batches(parts)


def _look_aggregated(data: pa.BinaryArray) -> list[int]:
    """Return the rows that begin with the magic bytes, found without touching the others."""
    _, offsets, values = data.buffers()
    if values is None or not len(data):
        return []
    bounds = np.frombuffer(offsets, np.int32)[data.offset : data.offset + len(data) + 1]
    raw = np.frombuffer(values, np.uint8)
    long_enough = np.flatnonzero(np.diff(bounds) >= len(MAGIC) + _DIGEST_BYTES)
    starts = bounds[long_enough].astype(np.int64)
    first = np.zeros(len(starts), np.uint32)
    for byte in range(len(MAGIC)):
        first |= raw[starts + byte].astype(np.uint32) << np.uint32(8 * byte)
    rows: list[int] = long_enough[first == _MAGIC_NUMBER].tolist()
    return rows


def _user_records(buffer: pa.Buffer, *, verify: bool) -> list[tuple[str, bytes]] | None:
    """Return keys and data of the user records, or None if this is no whole aggregated record."""
    message = memoryview(buffer)[len(MAGIC) : -_DIGEST_BYTES]
    digest = bytes(memoryview(buffer)[-_DIGEST_BYTES:])
    if verify and hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return None
    keys: list[str] = []
    found: list[tuple[int, bytes]] = []
    try:
        for field, value in _fields(message):
            if field == 1 and isinstance(value, memoryview):
                keys.append(str(value, "utf-8"))
            elif field == 3 and isinstance(value, memoryview):
                found.append(_user_record(value))
        return [(keys[index], data) for index, data in found] or None
    except (ValueError, IndexError):
        return None


def _user_record(message: memoryview) -> tuple[int, bytes]:
    index, data = None, None
    for field, value in _fields(message):
        if field == 1 and isinstance(value, int):
            index = value
        elif field == 3 and isinstance(value, memoryview):
            data = bytes(value)
    if index is None or data is None:
        raise ValueError("a user record without key or data")
    return index, data


def _fields(message: memoryview) -> list[tuple[int, int | memoryview]]:
    """Read a protobuf message's fields: numbers as they are, everything else as bytes."""
    fields: list[tuple[int, int | memoryview]] = []
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        match tag & 7:
            case 0:
                value, at = _number(message, at)
                fields.append((tag >> 3, value))
            case 2:
                size, at = _number(message, at)
                if at + size > len(message):
                    raise ValueError("a field longer than its message")
                fields.append((tag >> 3, message[at : at + size]))
                at += size
            case 1 | 5 as fixed:
                at += 8 if fixed == 1 else 4
            case _:
                raise ValueError("an unknown kind of field")
    return fields


def _number(message: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("a number too long")


def _numbered(records: pa.RecordBatch) -> pa.RecordBatch:
    zeros = pa.repeat(pa.scalar(0, pa.int64()), records.num_rows)
    return _with_numbers(records, zeros)


def _spread(record: pa.RecordBatch, user_records: list[tuple[str, bytes]]) -> pa.RecordBatch:
    """Repeat one record's columns for each of its user records, with their keys and data."""
    spread = record.take(pa.repeat(pa.scalar(0, pa.int64()), len(user_records)))
    keys = pa.array([key for key, _ in user_records], pa.string())
    data = pa.array([data for _, data in user_records], pa.binary())
    columns = [
        {"partitionKey": keys, "data": data}.get(name, spread.column(name))
        for name in record.schema.names
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=record.schema)
    return _with_numbers(whole, pa.array(range(len(user_records)), pa.int64()))


def _with_numbers(records: pa.RecordBatch, numbers: pa.Array) -> pa.RecordBatch:
    field = pa.field("subSequenceNumber", pa.int64(), nullable=False)
    return pa.RecordBatch.from_arrays(
        [*records.columns, numbers], schema=records.schema.append(field)
    )
