"""The GetRecords body of DynamoDB Streams, decoded into Arrow columns; items stay JSON text."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa

from shardline.services.wire.answer import RecordsAnswer, guarded, number_column
from shardline.services.wire.columns import DYNAMODB_COLUMNS, time_array

_ABSENT: Final = msgspec.Raw()
_NOTHING: Final = (b"", b"null")


class _Change(msgspec.Struct, rename="pascal", gc=False):
    keys: msgspec.Raw
    sequence_number: str
    approximate_creation_date_time: float
    size_bytes: int
    new_image: msgspec.Raw = _ABSENT
    old_image: msgspec.Raw = _ABSENT


class _Record(msgspec.Struct, gc=False):
    event_id: str = msgspec.field(name="eventID")
    event_name: str = msgspec.field(name="eventName")
    event_version: str = msgspec.field(name="eventVersion")
    dynamodb: _Change
    user_identity: msgspec.Raw = msgspec.field(name="userIdentity", default=_ABSENT)


class _Body(msgspec.Struct, rename="pascal", gc=False):
    records: list[_Record]
    next_shard_iterator: str | None = None


_DECODER: Final = msgspec.json.Decoder(_Body)


def decode_dynamodb(body: bytes) -> RecordsAnswer:
    """Decode a body. Raises `msgspec.DecodeError` for anything that is not one."""
    return guarded(_decode, body)


def _decode(body: bytes) -> RecordsAnswer:
    answer = _DECODER.decode(body)
    records = answer.records
    changes = [record.dynamodb for record in records]
    keys = _texts([change.keys for change in changes])
    if keys.null_count:
        raise msgspec.DecodeError("a change has no keys")
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([record.event_id for record in records], pa.string()),
            pa.array([record.event_name for record in records], pa.string()),
            pa.array([record.event_version for record in records], pa.string()),
            keys,
            _texts([change.old_image for change in changes]),
            _texts([change.new_image for change in changes]),
            number_column([change.sequence_number for change in changes]),
            time_array((change.approximate_creation_date_time for change in changes), len(changes)),
            pa.array([change.size_bytes for change in changes], pa.int64()),
            _texts([record.user_identity for record in records]),
        ],
        schema=DYNAMODB_COLUMNS,
    )
    return RecordsAnswer(batch, answer.next_shard_iterator)


def _texts(values: list[msgspec.Raw]) -> pa.Array:
    texts = [bytes(value) for value in values]
    return pa.array([None if text in _NOTHING else text for text in texts], pa.string())
