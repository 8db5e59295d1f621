"""The GetRecords body of Kinesis, and the events of SubscribeToShard, as Arrow columns."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec
import pyarrow as pa

from shardline.core.shards import SequenceNumber, Shard
from shardline.services.wire import cbor
from shardline.services.wire.answer import RecordsAnswer, guarded, number_column
from shardline.services.wire.columns import KINESIS_COLUMNS, time_array
from shardline.services.wire.descriptions import HashKeys  # noqa: TC001 - msgspec looks
from shardline.services.wire.vectors_cbor import decode_alike_cbor
from shardline.services.wire.vectors_json import decode_alike

Body = TypeVar("Body")


class _Part(msgspec.Struct, rename="pascal", gc=False):
    """A part of an answer, whose members are named as the service writes them."""


class _Record(_Part):
    data: bytes
    partition_key: str
    sequence_number: str
    approximate_arrival_timestamp: float


class _ChildShard(_Part):
    shard_id: str
    parent_shards: list[str]
    hash_key_range: HashKeys


class _Envelope(_Part):
    next_shard_iterator: str | None = None
    continuation_sequence_number: str | None = None
    millis_behind_latest: Annotated[int, msgspec.Meta(le=2**53)] | None = None
    child_shards: list[_ChildShard] | None = None


class _Body(_Envelope, kw_only=True):
    records: list[_Record]


class _EmptiedBody(_Envelope, kw_only=True):
    records: list[int]


_BODY: Final = msgspec.json.Decoder(_Body)
_EMPTIED_BODY: Final = msgspec.json.Decoder(_EmptiedBody)

_BIG_BODY_BYTES: Final = 1024 * 1024
"""From here on it pays to decode all records at once, which costs 0.3 ms however few there are."""
_MANY: Final = 64
_MARK: Final = [0]
"""What takes the place of records that were decoded all at once. If the rest of the body then has
these records, they are the body's own, and not those of another member that looks like them."""
_MARK_IN_JSON: Final = b"0"
_MARK_IN_CBOR: Final = cbor.encode(_MARK)


def decode_kinesis(body: bytes) -> RecordsAnswer:
    """Decode a body of JSON or CBOR. Raises `msgspec.DecodeError` for anything that is neither."""
    return guarded(_decode, body)


def decode_event(body: bytes) -> RecordsAnswer:
    """Decode a SubscribeToShardEvent, whose continuation number stands in place of an iterator.

    Raises `msgspec.DecodeError` for an event that has neither that number nor child shards: it
    would mean the end of a shard, without evidence of it.
    """
    answer = guarded(_decode_event, body)
    if answer.next_iterator is None and not answer.children:
        raise msgspec.DecodeError("an event without continuation number and child shards")
    return answer


def decode_simply(body: bytes) -> RecordsAnswer:
    """Decode a body record by record: any body, in any shape."""
    return guarded(_decode_simply, body)


def _decode(body: bytes) -> RecordsAnswer:
    envelope, records = _parts(body)
    return _answer(envelope, records, envelope.next_shard_iterator)


def _decode_event(body: bytes) -> RecordsAnswer:
    envelope, records = _parts(body)
    continuation = envelope.continuation_sequence_number
    if continuation is not None:
        SequenceNumber(continuation)
    return _answer(envelope, records, continuation)


def _parts(body: bytes) -> tuple[_Envelope, pa.RecordBatch]:
    if cbor.is_cbor_map(body):
        alike, mark = decode_alike_cbor(body), _MARK_IN_CBOR
    else:
        alike, mark = decode_alike(body) if _holds_many(body) else None, _MARK_IN_JSON
    if alike is not None:
        rest = body[: alike.start] + mark + body[alike.stop :]
        try:
            envelope = _typed(rest, _EMPTIED_BODY)
        except msgspec.ValidationError:
            return _simple_parts(body)
        if envelope.records == _MARK:
            return envelope, alike.batch
    return _simple_parts(body)


def _decode_simply(body: bytes) -> RecordsAnswer:
    envelope, records = _simple_parts(body)
    return _answer(envelope, records, envelope.next_shard_iterator)


def _simple_parts(body: bytes) -> tuple[_Envelope, pa.RecordBatch]:
    answer = _typed(body, _BODY)
    return answer, _columns(answer.records)


def _holds_many(body: bytes) -> bool:
    first = body.find(b"}")  # about where the first record ends
    return len(body) >= _BIG_BODY_BYTES and first * _MANY < len(body)


def _typed(body: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    if cbor.is_cbor_map(body):
        return msgspec.convert(cbor.decode(body), decoder.type)
    return decoder.decode(body)


def _columns(records: list[_Record]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([record.partition_key for record in records], pa.string()),
            pa.array([record.data for record in records], pa.binary()),
            number_column([record.sequence_number for record in records]),
            time_array((record.approximate_arrival_timestamp for record in records), len(records)),
        ],
        schema=KINESIS_COLUMNS,
    )


def _answer(body: _Envelope, records: pa.RecordBatch, following: str | None) -> RecordsAnswer:
    behind_ms = body.millis_behind_latest
    return RecordsAnswer(
        records,
        following,
        None if behind_ms is None else max(0, behind_ms),
        tuple(_shard(child) for child in body.child_shards or ()),
    )


def _shard(child: _ChildShard) -> Shard:
    return Shard(child.shard_id, tuple(child.parent_shards), child.hash_key_range.to_range())
