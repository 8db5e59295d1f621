"""The small answers of both services, decoded: streams, shards and iterators.

Each decoder takes a whole body and raises `msgspec.DecodeError` for anything else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

import msgspec

from shardline.core.shards import HashRange, SequenceNumber, Shard
from shardline.errors import InvalidPosition
from shardline.services.port import StreamDescription
from shardline.services.wire import cbor

Answer = TypeVar("Answer")

_READABLE: Final = frozenset({"ACTIVE", "UPDATING"})
"""A stream that is being resharded is UPDATING, and can be read all the while."""
_DYNAMODB_RETENTION_SECONDS: Final = 24 * 3600


class ShardPage(NamedTuple):
    """One page of a listing."""

    shards: tuple[Shard, ...]
    next_page: str | None
    """Where the next page starts; None after the last."""
    enabled: bool = True
    """False for a DynamoDB stream that was switched off, or is not switched on yet."""


class TableStreams(NamedTuple):
    """One page of a table's streams."""

    arns: dict[str, str]
    """By label: the time at which the stream was switched on, in ISO form, which sorts as text."""
    next_page: str | None


class _Part(msgspec.Struct, rename="pascal", gc=False):
    """A part of an answer, whose members are named as the services write them."""


class _Numbers(_Part):
    starting_sequence_number: str | None = None
    ending_sequence_number: str | None = None


class HashKeys(_Part):
    """A range of hash keys."""

    starting_hash_key: str
    ending_hash_key: str

    def to_range(self) -> HashRange:
        """Return the range as numbers."""
        ends = (self.starting_hash_key, self.ending_hash_key)
        if not all(end.isascii() and end.isdigit() and len(end) < 40 for end in ends):
            raise msgspec.DecodeError(f"not a range of hash keys: {ends}")
        return HashRange(int(ends[0]), int(ends[1]))


class _Shard(_Part):
    shard_id: str
    sequence_number_range: _Numbers
    parent_shard_id: str | None = None
    adjacent_parent_shard_id: str | None = None
    hash_key_range: HashKeys | None = None

    def to_shard(self) -> Shard:
        numbers, hashes = self.sequence_number_range, self.hash_key_range
        parents = (self.parent_shard_id, self.adjacent_parent_shard_id)
        return Shard(
            id=self.shard_id,
            parents=tuple(parent for parent in parents if parent),
            hash_range=None if hashes is None else hashes.to_range(),
            first=_number(numbers.starting_sequence_number),
            last=_number(numbers.ending_sequence_number),
        )


class _Iterator(_Part):
    shard_iterator: str


class _KinesisListing(_Part):
    shards: list[_Shard]
    next_token: str | None = None


class _Summary(_Part):
    stream_name: str
    stream_arn: str = msgspec.field(name="StreamARN")
    stream_creation_timestamp: float
    stream_status: str
    retention_period_hours: int


class _KinesisStream(_Part):
    stream_description_summary: _Summary


class _TableStream(_Part):
    stream_arn: str
    stream_label: str


class _TableStreams(_Part):
    streams: list[_TableStream]
    last_evaluated_stream_arn: str | None = None


class _KeyAttribute(_Part):
    attribute_name: str
    key_type: str


class _DynamoDBDescription(_Part):
    table_name: str
    stream_arn: str
    creation_request_date_time: float
    stream_status: str
    shards: list[_Shard]
    last_evaluated_shard_id: str | None = None
    key_schema: list[_KeyAttribute] = []


class _DynamoDBStream(_Part):
    stream_description: _DynamoDBDescription


def decode_iterator(body: bytes) -> str:
    """Return the iterator of a GetShardIterator answer."""
    iterator = _typed(body, _Iterator).shard_iterator
    if not iterator:
        raise msgspec.DecodeError("the iterator is empty")
    return iterator


def decode_kinesis_listing(body: bytes) -> ShardPage:
    """Return a page of ListShards."""
    page = _typed(body, _KinesisListing)
    shards = tuple(shard.to_shard() for shard in page.shards)
    if any(shard.hash_range is None or shard.first is None for shard in shards):
        raise msgspec.DecodeError("a shard lacks its range")
    return ShardPage(shards, page.next_token)


def decode_kinesis_stream(body: bytes) -> StreamDescription:
    """Return a DescribeStreamSummary answer."""
    stream = _typed(body, _KinesisStream).stream_description_summary
    return StreamDescription(
        name=stream.stream_name,
        arn=stream.stream_arn,
        created_at=_time(stream.stream_creation_timestamp),
        active=stream.stream_status in _READABLE,
        retention_seconds=stream.retention_period_hours * 3600,
    )


def decode_table_streams(body: bytes) -> TableStreams:
    """Return a page of ListStreams."""
    page = _typed(body, _TableStreams)
    arns = {stream.stream_label: stream.stream_arn for stream in page.streams}
    return TableStreams(arns, page.last_evaluated_stream_arn)


def decode_dynamodb_stream(body: bytes) -> tuple[StreamDescription, ShardPage]:
    """Return what a DescribeStream answer says about the stream, and its page of shards."""
    stream = _typed(body, _DynamoDBStream).stream_description
    description = StreamDescription(
        name=stream.table_name,
        arn=stream.stream_arn,
        created_at=_time(stream.creation_request_date_time),
        # A stream that was switched off can be read for as long as it keeps records.
        active=stream.stream_status != "ENABLING",
        retention_seconds=_DYNAMODB_RETENTION_SECONDS,
        hash_key=next((x.attribute_name for x in stream.key_schema if x.key_type == "HASH"), None),
    )
    shards = tuple(shard.to_shard() for shard in stream.shards)
    return description, ShardPage(
        shards, stream.last_evaluated_shard_id, enabled=stream.stream_status == "ENABLED"
    )


def _typed(body: bytes, kind: type[Answer]) -> Answer:
    if cbor.is_cbor_map(body):
        return msgspec.convert(cbor.decode(body), kind)
    return msgspec.json.decode(body, type=kind)


def _number(text: str | None) -> SequenceNumber | None:
    try:
        return SequenceNumber(text) if text else None
    except InvalidPosition as error:
        raise msgspec.DecodeError(str(error)) from error


def _time(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise msgspec.DecodeError(f"not a time: {seconds}") from error
