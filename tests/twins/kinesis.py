"""An in-process implementation of `StreamService` for Kinesis, for tests and simulations."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shardline.core.positions import TRIM_HORIZON
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import (
    InvalidPosition,
    IteratorExpired,
    ServiceError,
    ServiceUnreachable,
    ShardNotFound,
    StreamNotFound,
    Throttled,
)
from shardline.local.clock import Clock
from shardline.local.kinesis.account import Account
from shardline.local.kinesis.listing import visible_shards
from shardline.local.kinesis.records import (
    get_records,
    get_shard_iterator,
    put_record,
    shard_of_iterator,
)
from shardline.local.kinesis.requests import MAX_READ_RECORDS
from shardline.local.kinesis.resharding import merge_shards, split_shard
from shardline.local.refusals import Refusal
from shardline.services.iterators import iterator_parameters
from shardline.services.port import Page, StreamDescription
from shardline.services.wire.kinesis import decode_kinesis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.core.positions import Position
    from shardline.local.kinesis.shards import ShardLog
    from shardline.local.kinesis.streams import Stream

EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""The start time of a twin that is given no clock."""

_ERRORS: Final[dict[str, type[ServiceError | InvalidPosition]]] = {
    "ExpiredIteratorException": IteratorExpired,
    "InternalFailure": ServiceUnreachable,
    "InvalidArgumentException": InvalidPosition,
    "LimitExceededException": Throttled,
    "ProvisionedThroughputExceededException": Throttled,
    "ValidationException": InvalidPosition,
}


class Written(NamedTuple):
    """The shard and the sequence number of a written record."""

    shard_id: str
    sequence: SequenceNumber


class KinesisTwin:
    """The `StreamService` of one stream, which it creates; twins of one name can share an account.

    `put`, `split` and `merge` raise `Refusal`. Faults are injected through `account.faults` and
    affect the methods of the port only: a cut, a lost reply and a hang raise
    `ServiceUnreachable`, as the real port does after its last retry.
    """

    finds_times = True

    def __init__(
        self,
        shards: int = 1,
        *,
        name: str = "twin",
        clock: Clock | None = None,
        account: Account | None = None,
    ) -> None:
        self.name: Final = name
        self.clock: Final = clock or Clock(EPOCH)
        self.account: Final = account or Account()
        now_ms = self.clock.now_ms()
        if all(stream.name != name for stream in self.account.streams(now_ms)):
            self.account.create(name, "PROVISIONED", shards, now_ms)

    # --- producer and operator ------------------------------------------------------------------

    def put(self, partition_key: str, data: bytes, *, hash_key: int | None = None) -> Written:
        """Write a record to the shard of its partition key, or of an explicit hash key."""
        request: dict[str, Any] = {
            "StreamName": self.name,
            "PartitionKey": partition_key,
            "Data": base64.b64encode(data).decode(),
        }
        if hash_key is not None:
            request["ExplicitHashKey"] = str(hash_key)
        answer = put_record(self.account, request, self.clock.now_ms())
        return Written(answer["ShardId"], SequenceNumber(answer["SequenceNumber"]))

    def split(self, shard_id: str, new_start: int | None = None) -> tuple[str, ...]:
        """Split a shard at `new_start` (default: the middle) and return its children."""
        shard = self._stream().find_shard(shard_id)
        middle = (shard.hash_range.start + shard.hash_range.end + 1) // 2
        request = {
            "StreamName": self.name,
            "ShardToSplit": shard_id,
            "NewStartingHashKey": str(middle if new_start is None else new_start),
        }
        split_shard(self.account, request, self.clock.now_ms())
        return tuple(child.id for child in shard.children)

    def merge(self, shard_id: str, adjacent_id: str) -> str:
        """Merge two adjacent shards and return their child."""
        request = {
            "StreamName": self.name,
            "ShardToMerge": shard_id,
            "AdjacentShardToMerge": adjacent_id,
        }
        merge_shards(self.account, request, self.clock.now_ms())
        return self._stream().find_shard(shard_id).children[0].id

    # --- the port -----------------------------------------------------------------------------

    def describe(self) -> StreamDescription:
        with self._calling("DescribeStreamSummary"):
            stream = self._stream()
        return StreamDescription(
            name=stream.name,
            arn=stream.arn,
            created_at=datetime.fromtimestamp(stream.created_ms / 1000, UTC),
            active=stream.status in ("ACTIVE", "UPDATING"),
            retention_seconds=stream.retention_hours * 3600,
            service_time=self.clock.now(),
        )

    def list_shards(self) -> tuple[Shard, ...]:
        with self._calling("ListShards"):
            shards, visible_reshards = visible_shards(self.account, self._stream(), "ListShards")
        return tuple(_shard(shard, visible_reshards) for shard in shards)

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        return tuple(shard for shard in self.list_shards() if shard_id in shard.parents)

    def has_shard(self, shard_id: str) -> bool:
        try:
            self.open(shard_id, TRIM_HORIZON)
        except ShardNotFound:
            return False
        return True

    def open(self, shard_id: str, position: Position) -> str:
        start = iterator_parameters(shard_id, position)
        if "Timestamp" in start:
            start["Timestamp"] = start["Timestamp"].timestamp()
        request = {"StreamName": self.name, "ShardId": shard_id} | start
        with self._calling("GetShardIterator", shard_id):
            self._stream()
            answer = get_shard_iterator(self.account, request, self.clock.now_ms())
        iterator: str = answer["ShardIterator"]
        return iterator

    def read(self, iterator: str, max_records: int) -> Page:
        request = {"ShardIterator": iterator, "Limit": min(max_records, MAX_READ_RECORDS)}
        now_ms = self.clock.now_ms()
        try:
            shard_id = shard_of_iterator(iterator)
        except Refusal as refusal:
            raise InvalidPosition(f"{self.name}: GetRecords refused: {refusal}") from refusal
        with self._calling("GetRecords", shard_id):
            body = get_records(self.account, request, now_ms)
        answer = decode_kinesis(body)
        return Page(
            answer.records,
            answer.next_iterator,
            answer.behind_ms,
            answer.children,
            datetime.fromtimestamp(now_ms / 1000, UTC),
        )

    def close(self) -> None:
        """No-op: there are no connections to close."""

    def _stream(self) -> Stream:
        return self.account.find(self.name, self.clock.now_ms())

    @contextmanager
    def _calling(self, operation: str, shard_id: str | None = None) -> Iterator[None]:
        """Translate injected faults and refusals into shardline's errors."""
        faults = self.account.faults
        for kind in ("cut", "hang", "internal-failure"):
            if faults.take(kind, operation, shard_id):
                raise ServiceUnreachable(f"{self.name}: {operation} had no answer ({kind})")
        if faults.take("throttle", operation, shard_id):
            raise Throttled(f"{self.name}: {operation} throttled by the service")
        try:
            yield
        except Refusal as refusal:
            kind_of_error = _ERRORS.get(refusal.name, ServiceError)
            if refusal.name == "ResourceNotFoundException":
                kind_of_error = StreamNotFound if shard_id is None else self._not_found()
            raise kind_of_error(f"{self.name}: {operation} refused: {refusal}") from refusal
        if faults.take("lose-reply", operation, shard_id):
            raise ServiceUnreachable(f"{self.name}: {operation} had no answer (lose-reply)")

    def _not_found(self) -> type[ServiceError]:
        try:
            self._stream()
        except Refusal:
            return StreamNotFound
        return ShardNotFound


def _shard(shard: ShardLog, visible_reshards: int) -> Shard:
    closed = shard.closed
    seen_closed = closed is not None and closed.reshard <= visible_reshards
    return Shard(
        id=shard.id,
        parents=tuple(parent.id for parent in shard.parents),
        hash_range=shard.hash_range,
        first=SequenceNumber(shard.number(shard.opened.tick)),
        last=SequenceNumber(shard.number(closed.tick)) if closed and seen_closed else None,
    )
