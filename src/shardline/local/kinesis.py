"""Kinesis Data Streams: the operations by name, over one account's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.local import (
    kinesis_admin,
    kinesis_listing,
    kinesis_records,
    kinesis_resharding,
    parameters,
)
from shardline.local.kinesis_account import Account
from shardline.local.kinesis_cbor import with_times
from shardline.local.refusals import Refusal
from shardline.services import cbor

if TYPE_CHECKING:
    from collections.abc import Callable

    Operation = Callable[[Account, dict[str, Any], int], dict[str, Any] | bytes | None]

_OPERATIONS: Final[dict[str, Operation]] = {
    "CreateStream": kinesis_admin.create_stream,
    "DecreaseStreamRetentionPeriod": kinesis_admin.decrease_retention,
    "DeleteStream": kinesis_admin.delete_stream,
    "DescribeLimits": kinesis_admin.describe_limits,
    "DescribeStream": kinesis_admin.describe_stream,
    "DescribeStreamSummary": kinesis_admin.describe_stream_summary,
    "GetRecords": kinesis_records.get_records,
    "GetShardIterator": kinesis_records.get_shard_iterator,
    "IncreaseStreamRetentionPeriod": kinesis_admin.increase_retention,
    "ListShards": kinesis_listing.list_shards,
    "ListStreams": kinesis_admin.list_streams,
    "MergeShards": kinesis_resharding.merge_shards,
    "PutRecord": kinesis_records.put_record,
    "PutRecords": kinesis_records.put_records,
    "SplitShard": kinesis_resharding.split_shard,
    "UpdateShardCount": kinesis_resharding.update_shard_count,
}
_OPERATIONS_IN_CBOR: Final = _OPERATIONS | {"GetRecords": kinesis_records.get_records_in_cbor}


class Kinesis:
    """The Kinesis backend of the HTTP server."""

    target_prefix = "Kinesis_20131202."

    def __init__(self, account: Account | None = None) -> None:
        self.account = account or Account()

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
        return carry_out(self.account, request, now_ms)

    def shard_of(self, operation: str, request: dict[str, Any]) -> str | None:
        """Return the shard that a call concerns, if it concerns just one."""
        if operation == "GetRecords":
            try:
                return kinesis_records.shard_of_iterator(parameters.text(request, "ShardIterator"))
            except Refusal:
                return None
        shard_id = request.get("ShardId")
        return shard_id if isinstance(shard_id, str) else None

    def control(self, operation: str, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Do what only the service itself does: `reshard` an ON_DEMAND stream."""
        if operation != "reshard":
            raise Refusal("UnknownOperationException", f"unknown control {operation!r}: reshard")
        stream = self.account.find_asked(request, now_ms)
        target = parameters.integer(request, "TargetShardCount", 1, kinesis_resharding.MAX_SHARDS)
        kinesis_resharding.scale_uniformly(stream, target, now_ms)
        return {"OpenShardCount": len(stream.open_shards)}
