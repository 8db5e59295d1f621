"""The operations of Kinesis Data Streams by name."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.local import parameters, replay
from shardline.local.kinesis import admin, listing, records, resharding
from shardline.local.kinesis.account import Account
from shardline.local.kinesis.cbor import with_times
from shardline.local.refusals import Refusal
from shardline.services.wire import cbor

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.local.journal import Journal

    Operation = Callable[[Account, dict[str, Any], int], dict[str, Any] | bytes | None]

_OPERATIONS: Final[dict[str, Operation]] = {
    "CreateStream": admin.create_stream,
    "DecreaseStreamRetentionPeriod": admin.decrease_retention,
    "DeleteStream": admin.delete_stream,
    "DescribeLimits": admin.describe_limits,
    "DescribeStream": admin.describe_stream,
    "DescribeStreamSummary": admin.describe_stream_summary,
    "GetRecords": records.get_records,
    "GetShardIterator": records.get_shard_iterator,
    "IncreaseStreamRetentionPeriod": admin.increase_retention,
    "ListShards": listing.list_shards,
    "ListStreams": admin.list_streams,
    "MergeShards": resharding.merge_shards,
    "PutRecord": records.put_record,
    "PutRecords": records.put_records,
    "SplitShard": resharding.split_shard,
    "UpdateShardCount": resharding.update_shard_count,
}
_RESHARD: Final = "reshard"
_CHANGES: Final = frozenset(_OPERATIONS) - {
    "DescribeLimits",
    "DescribeStream",
    "DescribeStreamSummary",
    "GetRecords",
    "GetShardIterator",
    "ListShards",
    "ListStreams",
    "PutRecord",
    "PutRecords",
}
"""Operations whose requests go into the journal. For records their places do."""
_OPERATIONS_IN_CBOR: Final = _OPERATIONS | {"GetRecords": records.get_records_in_cbor}


class Kinesis:
    """The Kinesis backend of the HTTP server."""

    target_prefix = "Kinesis_20131202."

    def __init__(self, account: Account | None = None) -> None:
        self.account = account or Account()
        self.journal: Journal | None = None

    def call(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Execute one operation and return the response body, or raise `Refusal`."""
        answer = self._execute(operation, request, now_ms, _OPERATIONS)
        if isinstance(answer, bytes):
            return answer
        return b"" if answer is None else msgspec.json.encode(answer)

    def call_cbor(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Execute one operation for a CBOR client: data as bytes, timestamps as CBOR times."""
        answer = self._execute(operation, request, now_ms, _OPERATIONS_IN_CBOR)
        if isinstance(answer, bytes):
            return answer
        return b"" if answer is None else cbor.encode(with_times(answer))

    def _execute(
        self,
        operation: str,
        request: dict[str, Any],
        now_ms: int,
        operations: dict[str, Operation],
    ) -> dict[str, Any] | bytes | None:
        execute = operations.get(operation)
        if execute is None:
            raise Refusal("UnknownOperationException", f"{operation} is not known here.")
        self.account.limits.count_call(operation, now_ms)
        answer = execute(self.account, request, now_ms)
        if self.journal is not None:
            self._append_to_journal(self.journal, operation, request, now_ms)
        return answer

    def replay(self, operation: str, request: dict[str, Any], now_ms: int) -> None:
        """Execute a journalled operation again, without limits."""
        if operation == _RESHARD:
            self._reshard(request, now_ms)
        else:
            _OPERATIONS[operation](self.account, request, now_ms)

    def _append_to_journal(
        self, journal: Journal, operation: str, request: dict[str, Any], now_ms: int
    ) -> None:
        if operation in _CHANGES:
            delay_ms = self.account.settings.status_delay_ms
            journal.append(now_ms, replay.OPERATION, (operation, request, delay_ms))
        if self.account.written:
            for stream, records in groupby(self.account.written, key=itemgetter(0)):
                content = stream, [record[1:] for record in records]
                journal.append(now_ms, replay.RECORDS, content)
            self.account.written.clear()

    def shard_of(self, operation: str, request: dict[str, Any]) -> str | None:
        """Return the shard of a call, or None if it does not concern exactly one."""
        if operation == "GetRecords":
            try:
                return records.shard_of_iterator(parameters.text(request, "ShardIterator"))
            except Refusal:
                return None
        shard_id = request.get("ShardId")
        return shard_id if isinstance(shard_id, str) else None

    def control(self, operation: str, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Execute a control call: `reshard`, which also works on ON_DEMAND streams."""
        if operation != _RESHARD:
            raise Refusal("UnknownOperationException", f"unknown control {operation!r}: reshard")
        answer = self._reshard(request, now_ms)
        if self.journal is not None:
            self.journal.append(now_ms, replay.OPERATION, (_RESHARD, request, 0))
        return answer

    def _reshard(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        stream = self.account.find_requested(request, now_ms)
        target = parameters.integer(request, "TargetShardCount", 1, resharding.MAX_SHARDS)
        resharding.scale_uniformly(stream, target, now_ms)
        return {"OpenShardCount": len(stream.open_shards)}
