"""Kinesis Data Streams: the operations by name, over one account's state."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.local import parameters, restoring
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
"""What is written down as it was asked; of the records, where they went."""
_OPERATIONS_IN_CBOR: Final = _OPERATIONS | {"GetRecords": records.get_records_in_cbor}


class Kinesis:
    """The Kinesis backend of the HTTP server."""

    target_prefix = "Kinesis_20131202."

    def __init__(self, account: Account | None = None) -> None:
        self.account = account or Account()
        self.journal: Journal | None = None

    def call(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Carry out one operation and return the response body, or raise `Refusal`."""
        answer = self._carry_out(operation, request, now_ms, _OPERATIONS)
        if isinstance(answer, bytes):
            return answer
        return b"" if answer is None else msgspec.json.encode(answer)

    def call_cbor(self, operation: str, request: dict[str, Any], now_ms: int) -> bytes:
        """Do the same for a caller who speaks CBOR: data are bytes, times are times."""
        answer = self._carry_out(operation, request, now_ms, _OPERATIONS_IN_CBOR)
        if isinstance(answer, bytes):
            return answer
        return b"" if answer is None else cbor.encode(with_times(answer))

    def _carry_out(
        self,
        operation: str,
        request: dict[str, Any],
        now_ms: int,
        operations: dict[str, Operation],
    ) -> dict[str, Any] | bytes | None:
        carry_out = operations.get(operation)
        if carry_out is None:
            raise Refusal("UnknownOperationException", f"{operation} is not known here.")
        self.account.limits.count_call(operation, now_ms)
        answer = carry_out(self.account, request, now_ms)
        if self.journal is not None:
            self._note(self.journal, operation, request, now_ms)
        return answer

    def carry_out_again(self, operation: str, request: dict[str, Any], now_ms: int) -> None:
        """Do what was done before, unlimited: it is known to have succeeded."""
        if operation == _RESHARD:
            self._reshard(request, now_ms)
        else:
            _OPERATIONS[operation](self.account, request, now_ms)

    def _note(self, journal: Journal, operation: str, request: dict[str, Any], now_ms: int) -> None:
        if operation in _CHANGES:
            delay_ms = self.account.settings.status_delay_ms
            journal.note(now_ms, restoring.OPERATION, (operation, request, delay_ms))
        if self.account.written:
            for stream, records in groupby(self.account.written, key=itemgetter(0)):
                content = stream, [record[1:] for record in records]
                journal.note(now_ms, restoring.RECORDS, content)
            self.account.written.clear()

    def shard_of(self, operation: str, request: dict[str, Any]) -> str | None:
        """Return the shard that a call concerns, if it concerns just one."""
        if operation == "GetRecords":
            try:
                return records.shard_of_iterator(parameters.text(request, "ShardIterator"))
            except Refusal:
                return None
        shard_id = request.get("ShardId")
        return shard_id if isinstance(shard_id, str) else None

    def control(self, operation: str, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Do what only the service itself does: `reshard` an ON_DEMAND stream."""
        if operation != _RESHARD:
            raise Refusal("UnknownOperationException", f"unknown control {operation!r}: reshard")
        answer = self._reshard(request, now_ms)
        if self.journal is not None:
            self.journal.note(now_ms, restoring.OPERATION, (_RESHARD, request, 0))
        return answer

    def _reshard(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        stream = self.account.find_asked(request, now_ms)
        target = parameters.integer(request, "TargetShardCount", 1, resharding.MAX_SHARDS)
        resharding.scale_uniformly(stream, target, now_ms)
        return {"OpenShardCount": len(stream.open_shards)}
