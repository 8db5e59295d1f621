"""The operations of the embedded DynamoDB Streams for its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from shardline.local.backend import Backend
from shardline.local.dynamodb_streams.changes import sequence_text
from shardline.local.dynamodb_streams.control import Tables, control
from shardline.local.dynamodb_streams.iterators import (
    MAX_RECORDS,
    IteratorType,
    open_shard,
    read_shard,
    shard_of_iterator,
)
from shardline.local.faults import Faults
from shardline.local.refusals import Refusal
from shardline.local.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.local.dynamodb_streams.state import StoredShard, StoredStream

MAX_LISTED: Final = 100

_ListLimit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LISTED)]
_ReadLimit = Annotated[int, msgspec.Meta(ge=1)]


class _ListStreams(msgspec.Struct, rename="pascal"):
    table_name: str | None = None
    limit: _ListLimit = MAX_LISTED
    exclusive_start_stream_arn: str | None = None


class _ShardFilter(msgspec.Struct, rename="pascal"):
    type: Literal["CHILD_SHARDS"]
    shard_id: str


class _DescribeStream(msgspec.Struct, rename="pascal"):
    stream_arn: str
    limit: _ListLimit = MAX_LISTED
    exclusive_start_shard_id: str | None = None
    shard_filter: _ShardFilter | None = None


class _GetShardIterator(msgspec.Struct, rename="pascal"):
    stream_arn: str
    shard_id: str
    shard_iterator_type: IteratorType
    sequence_number: str | None = None
    timestamp: float | None = None


class _GetRecords(msgspec.Struct, rename="pascal"):
    shard_iterator: str
    limit: _ReadLimit = MAX_RECORDS


class DynamoDBStreamsBackend(Backend):
    """The DynamoDB Streams backend of the HTTP server."""

    target_prefix = "DynamoDBStreams_20120810."

    def __init__(
        self, tables: Tables, faults: Faults | None = None, settings: Settings | None = None
    ) -> None:
        self.tables: Final = tables
        self._faults = faults or Faults()
        self._settings = settings or Settings()
        self._operations: dict[str, tuple[type[Any], Callable[[Any, int], bytes]]] = {
            "ListStreams": (_ListStreams, self._list_streams),
            "DescribeStream": (_DescribeStream, self._describe_stream),
            "GetShardIterator": (_GetShardIterator, self._get_shard_iterator),
            "GetRecords": (_GetRecords, self._get_records),
        }

    def knows(self, operation: str) -> bool:
        return operation in self._operations

    def has_effect(self, operation: str) -> bool:  # noqa: ARG002
        """Return false: every operation only reads."""
        return False

    def call(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Execute one operation and return the response body as JSON, or raise `Refusal`."""
        if operation not in self._operations:
            raise Refusal("UnknownOperationException")
        kind, act = self._operations[operation]
        try:
            parameters = msgspec.convert(request, kind)
        except msgspec.ValidationError as fault:
            raise Refusal("ValidationException", f"{operation}: {fault}") from fault
        with self.tables.lock:
            if self.tables.before_call is not None:
                self.tables.before_call(now_ms)
            return act(parameters, now_ms)

    def control(self, operation: str, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Execute one operation of the control API; `Tables` has the operations."""
        del now_ms  # The tables share the server's clock.
        return control(self.tables, operation, request)

    def shard_of(self, operation: str, request: dict[str, Any]) -> str | None:
        if operation == "GetRecords":
            return shard_of_iterator(str(request.get("ShardIterator")))
        return super().shard_of(operation, request)

    # --- listing ----------------------------------------------------------------------------

    def _list_streams(self, request: _ListStreams, now_ms: int) -> bytes:
        streams = self.tables.find_streams(request.table_name, now_ms)
        if request.exclusive_start_stream_arn is not None:
            arns = [stream.arn for stream in streams]
            if request.exclusive_start_stream_arn not in arns:
                raise Refusal("ValidationException", "Invalid ExclusiveStartStreamArn")
            streams = streams[arns.index(request.exclusive_start_stream_arn) + 1 :]
        page = streams[: request.limit]
        answer: dict[str, Any] = {
            "Streams": [
                {"StreamArn": each.arn, "TableName": each.table, "StreamLabel": each.label}
                for each in page
            ]
        }
        if len(page) < len(streams):
            answer["LastEvaluatedStreamArn"] = page[-1].arn
        return msgspec.json.encode(answer)

    def _describe_stream(self, request: _DescribeStream, now_ms: int) -> bytes:
        stream = self.tables.find_stream_by_arn(request.stream_arn, now_ms)
        shards = self._listed(stream, now_ms)
        if request.shard_filter is not None:
            parent = stream.shard(request.shard_filter.shard_id, now_ms).id
            shards = [each for each in shards if each.get("ParentShardId") == parent]
        if request.exclusive_start_shard_id is not None:
            shards = [each for each in shards if each["ShardId"] > request.exclusive_start_shard_id]
        page = shards[: request.limit]
        description: dict[str, Any] = {
            "StreamArn": stream.arn,
            "StreamLabel": stream.label,
            "StreamStatus": "ENABLED" if stream.disabled_ms is None else "DISABLED",
            "StreamViewType": stream.view_type,
            "CreationRequestDateTime": stream.created_ms / 1000,
            "TableName": stream.table,
            "KeySchema": [
                {"AttributeName": name, "KeyType": kind}
                for name, kind in zip(stream.key_names, ("HASH", "RANGE"), strict=False)
            ],
            "Shards": page,
        }
        if len(page) < len(shards):
            description["LastEvaluatedShardId"] = page[-1]["ShardId"]
        return msgspec.json.encode({"StreamDescription": description})

    def _listed(self, stream: StoredStream, now_ms: int) -> list[dict[str, Any]]:
        stale = self._faults.take("stale-listing", "DescribeStream")
        lag = 0 if stale is None else stale.reshards
        one_in = self._settings.stale_listing_one_in
        # By the table's name: an ARN holds the time, and its draws would differ in every run.
        if self._faults.happens(one_in, "DescribeStream", stream.table):
            lag = max(lag, 1)
        seen = max(stream.reshards - lag, 0)
        all_open = self._faults.take("open-parent", "DescribeStream") is not None
        return [
            _description(shard, as_open=all_open or (shard.closed_by or 0) > seen)
            for shard in stream.listed(now_ms)
            if shard.opened_by <= seen
        ]

    # --- reading ----------------------------------------------------------------------------

    def _get_shard_iterator(self, request: _GetShardIterator, now_ms: int) -> bytes:
        stream = self.tables.find_stream_by_arn(request.stream_arn, now_ms)
        iterator = open_shard(
            stream,
            request.shard_id,
            request.shard_iterator_type,
            sequence=request.sequence_number,
            timestamp=request.timestamp,
            now_ms=now_ms,
        )
        return msgspec.json.encode({"ShardIterator": iterator})

    def _get_records(self, request: _GetRecords, now_ms: int) -> bytes:
        every = self._settings.empty_page_every
        changes, next_iterator = read_shard(
            self.tables, request.shard_iterator, request.limit, now_ms, empty_page_every=every
        )
        records = b",".join([change.body for change in changes])
        if next_iterator is None and self._faults.take("missing-next-iterator", "GetRecords"):
            return b'{"Records":[%b]}' % records
        return b'{"Records":[%b],"NextShardIterator":%b}' % (
            records,
            msgspec.json.encode(next_iterator),
        )


def _description(shard: StoredShard, *, as_open: bool) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": sequence_text(shard.first)}
    if shard.last is not None and not as_open:
        numbers["EndingSequenceNumber"] = sequence_text(shard.last)
    description: dict[str, Any] = {"ShardId": shard.id, "SequenceNumberRange": numbers}
    if shard.parent is not None:
        # An expired parent is still named.
        description["ParentShardId"] = shard.parent
    return description
