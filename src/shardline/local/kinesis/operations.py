"""The operations of Kinesis Data Streams by name."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shardline.local import replay
from shardline.local.backend import Backend
from shardline.local.kinesis import admin, consumers, listing, records, resharding, tags
from shardline.local.kinesis.account import Account
from shardline.local.kinesis.cbor import with_times
from shardline.local.kinesis.reads import Reads
from shardline.local.kinesis.requests import checked
from shardline.local.kinesis.subscriptions import subscribe
from shardline.local.refusals import Refusal
from shardline.local.validation import Integer, Structure, Text, validate
from shardline.services.wire import cbor

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.local.journal import Journal
    from shardline.local.kinesis.subscriptions import Subscription

    Operation = Callable[[Account, dict[str, Any], int], dict[str, Any] | bytes | None]

_QUERIES: Final[dict[str, Operation]] = {
    "DescribeLimits": admin.describe_limits,
    "DescribeStream": admin.describe_stream,
    "DescribeStreamConsumer": consumers.describe_consumer,
    "DescribeStreamSummary": admin.describe_stream_summary,
    "GetRecords": records.get_records,
    "GetShardIterator": records.get_shard_iterator,
    "ListShards": listing.list_shards,
    "ListStreamConsumers": consumers.list_consumers,
    "ListStreams": admin.list_streams,
    "ListTagsForResource": tags.list_resource_tags,
    "ListTagsForStream": tags.list_tags,
}
_WRITES: Final[dict[str, Operation]] = {
    "PutRecord": records.put_record,
    "PutRecords": records.put_records,
}
_CHANGES: Final[dict[str, Operation]] = {
    "AddTagsToStream": tags.add_tags,
    "CreateStream": admin.create_stream,
    "DecreaseStreamRetentionPeriod": admin.decrease_retention,
    "DeleteStream": admin.delete_stream,
    "DeregisterStreamConsumer": consumers.deregister_consumer,
    "IncreaseStreamRetentionPeriod": admin.increase_retention,
    "MergeShards": resharding.merge_shards,
    "RegisterStreamConsumer": consumers.register_consumer,
    "RemoveTagsFromStream": tags.remove_tags,
    "SplitShard": resharding.split_shard,
    "TagResource": tags.tag_resource,
    "UntagResource": tags.untag_resource,
    "UpdateMaxRecordSize": admin.update_record_size,
    "UpdateShardCount": resharding.update_shard_count,
}
"""Operations whose requests go into the journal. For records their places do."""
_OPERATIONS: Final = _QUERIES | _WRITES | _CHANGES
_OPERATIONS_IN_CBOR: Final = _OPERATIONS | {"GetRecords": records.get_records_in_cbor}
_SUBSCRIBE: Final = "SubscribeToShard"
_READS: Final = "reads"
_READS_SHAPE: Final = Structure({"StreamName": Text(1, 128)}, ("StreamName",))
_RESHARD: Final = "reshard"
_RESHARD_SHAPE: Final = Structure(
    {"StreamName": Text(1, 128), "TargetShardCount": Integer(1, 10_000)},
    ("StreamName", "TargetShardCount"),
)


class Kinesis(Backend):
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
        execute = operations[operation]
        members = checked(operation, request)
        self.account.limits.count_call(operation, now_ms)
        answer = execute(self.account, members, now_ms)
        if self.journal is not None:
            self._append_to_journal(self.journal, operation, members, now_ms)
        return answer

    def knows(self, operation: str) -> bool:
        return operation in _OPERATIONS or operation == _SUBSCRIBE

    def has_effect(self, operation: str) -> bool:
        """Return true unless the operation only reads."""
        return operation not in _QUERIES

    def subscription(
        self, operation: str, request: dict[str, Any], now_ms: int
    ) -> Subscription | None:
        """Start the subscription that an operation asks for; None for other operations."""
        if operation != _SUBSCRIBE:
            return None
        return subscribe(self.account, checked(operation, request), now_ms)

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
        if operation == "GetRecords":
            try:
                return records.shard_of_iterator(str(request.get("ShardIterator")))
            except Refusal:
                return None
        return super().shard_of(operation, request)

    def control(self, operation: str, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Execute a control call: `reshard`, also of ON_DEMAND streams, or `reads`."""
        if operation == _READS:
            return self._reads(validate(request, _READS_SHAPE), now_ms)
        if operation != _RESHARD:
            known = f"{_RESHARD}, {_READS}"
            raise Refusal("UnknownOperationException", f"unknown control {operation!r}: {known}")
        request = validate(request, _RESHARD_SHAPE)
        answer = self._reshard(request, now_ms)
        if self.journal is not None:
            self.journal.append(now_ms, replay.OPERATION, (_RESHARD, request, 0))
        return answer

    def _reads(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Return what was read of each shard of a stream since the last such call."""
        found = []
        for shard in self.account.find_requested(request, now_ms).shards:
            found.append(shard.reads.described(shard.id))
            shard.reads = Reads()
        return {"Shards": found}

    def _reshard(self, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
        stream = self.account.find_requested(request, now_ms)
        resharding.scale_uniformly(stream, request["TargetShardCount"], now_ms)
        return {"OpenShardCount": len(stream.open_shards)}
