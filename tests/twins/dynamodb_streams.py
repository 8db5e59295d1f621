"""An in-process implementation of `StreamService` for DynamoDB Streams, for tests."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from shardline.core.positions import AtTime, Position
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import (
    InvalidPosition,
    IteratorExpired,
    PositionTrimmed,
    ServiceError,
    ShardNotFound,
    StreamNotFound,
)
from shardline.local.dynamodb_streams.changes import sequence_text
from shardline.local.dynamodb_streams.iterators import MAX_RECORDS, open_shard, read_shard
from shardline.local.dynamodb_streams.state import RETENTION_MS
from shardline.local.refusals import Refusal
from shardline.services.iterators import iterator_parameters
from shardline.services.port import Page, StreamDescription
from shardline.services.wire.columns import DYNAMODB_COLUMNS
from shardline.services.wire.dynamodb import decode_dynamodb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.local.dynamodb_streams.control import Tables
    from shardline.local.dynamodb_streams.state import StoredStream

_ERRORS: Final[dict[str, type[ServiceError]]] = {
    "ExpiredIteratorException": IteratorExpired,
    "TrimmedDataAccessException": PositionTrimmed,
}

_NOTHING: Final = pa.RecordBatch.from_pylist([], schema=DYNAMODB_COLUMNS)


class DynamoDBTwin:
    """The `StreamService` of a table's newest stream at the time of construction."""

    finds_times = False
    empty_page_every = 0

    def __init__(self, tables: Tables, table: str) -> None:
        self._tables = tables
        self._clock = tables.clock
        with _translated_errors(StreamNotFound):
            self._arn = tables.find_stream(table, self._clock.now_ms()).arn

    def describe(self) -> StreamDescription:
        stream = self._stream(self._clock.now_ms())
        return StreamDescription(
            name=stream.table,
            arn=stream.arn,
            created_at=datetime.fromtimestamp(stream.created_ms / 1000, UTC),
            # A disabled stream can be read until its records are trimmed.
            active=True,
            retention_seconds=RETENTION_MS // 1000,
            service_time=self._clock.now(),
        )

    def list_shards(self) -> tuple[Shard, ...]:
        now_ms = self._clock.now_ms()
        with self._tables.lock:
            listed = self._stream(now_ms).listed(now_ms)
        return tuple(
            Shard(
                id=shard.id,
                parents=() if shard.parent is None else (shard.parent,),
                first=SequenceNumber(sequence_text(shard.first)),
                last=None if shard.last is None else SequenceNumber(sequence_text(shard.last)),
            )
            for shard in listed
        )

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        return tuple(shard for shard in self.list_shards() if shard_id in shard.parents)

    def has_shard(self, shard_id: str) -> bool:
        return any(shard.id == shard_id for shard in self.list_shards())

    def open(self, shard_id: str, position: Position) -> str:
        if isinstance(position, AtTime):
            raise InvalidPosition(
                f"{position} cannot be opened: DynamoDB Streams knows sequence numbers, the trim "
                "horizon and latest"
            )
        start = iterator_parameters(shard_id, position, "SequenceNumber")
        now_ms = self._clock.now_ms()
        stream = self._stream(now_ms)
        with _translated_errors(ShardNotFound), self._tables.lock:
            return open_shard(
                stream,
                shard_id,
                start["ShardIteratorType"],
                sequence=start.get("SequenceNumber"),
                now_ms=now_ms,
            )

    def read(self, iterator: str, max_records: int) -> Page:
        now_ms = self._clock.now_ms()
        self._stream(now_ms)
        with _translated_errors(ShardNotFound), self._tables.lock:
            changes, next_iterator = read_shard(
                self._tables, iterator, min(max_records, MAX_RECORDS), now_ms,
                empty_page_every=self.empty_page_every,
            )  # fmt: skip
        body = b'{"Records":[%b]}' % b",".join(change.body for change in changes)
        return Page(
            records=decode_dynamodb(body).records if changes else _NOTHING,
            next_iterator=next_iterator,
            behind_ms=None,
            children=(),
            service_time=datetime.fromtimestamp(now_ms / 1000, UTC),
        )

    def close(self) -> None:
        """No-op: there are no connections to close."""

    def _stream(self, now_ms: int) -> StoredStream:
        with _translated_errors(StreamNotFound):
            return self._tables.find_stream_by_arn(self._arn, now_ms)


@contextmanager
def _translated_errors(not_found: type[ServiceError]) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        kind = _ERRORS.get(refusal.name, ServiceError)
        if refusal.name == "ResourceNotFoundException":
            kind = not_found
        raise kind(refusal.message) from refusal
