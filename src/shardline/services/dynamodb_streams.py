"""DynamoDB Streams behind the port."""

from __future__ import annotations

from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from shardline.core.positions import After, AtTime, Latest, Position, ShardEnd, TrimHorizon
from shardline.core.shards import SequenceNumber, Shard
from shardline.errors import (
    InvalidPosition,
    PositionTrimmed,
    ServiceError,
    ShardNotFound,
    StreamNotFound,
)
from shardline.services.calls import Calls, Patience, service_time_of
from shardline.services.port import Page, StreamDescription
from shardline.services.wire.columns import DYNAMODB_COLUMNS
from shardline.services.wire.dynamodb import decode_dynamodb
from shardline.services.wire.handler import answer_in, decode_records_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from shardline.services.addresses import Address

_MOST_RECORDS: Final = 1_000
_RETENTION_SECONDS: Final = 24 * 3600


class DynamoDBStream:
    """The stream of one table, through a botocore client that this object owns from now on."""

    finds_times = False
    columns: pa.Schema = DYNAMODB_COLUMNS

    def __init__(
        self,
        client: Any,
        address: Address,
        patience: Patience | None = None,
        shards_per_page: int = 100,
    ) -> None:
        self._address = address
        self._shards_per_page = shards_per_page
        decode_records_with(decode_dynamodb, client, "dynamodb-streams")
        self._calls = Calls(client, str(address), patience or Patience())

    @cached_property
    def _arn(self) -> str:
        """The table's newest stream: each time that streaming is switched on makes another."""
        if self._address.stream_arn:
            return self._address.stream_arn
        streams: list[dict[str, Any]] = []
        page: dict[str, Any] = {}
        while True:
            answer = self._calls.call("list_streams", TableName=self._address.name, **page)
            streams += answer["Streams"]
            if not answer.get("LastEvaluatedStreamArn"):
                break
            page = {"ExclusiveStartStreamArn": answer["LastEvaluatedStreamArn"]}
        if not streams:
            raise StreamNotFound(
                f"{self._address}: no such table, or its stream is off: check name and region, "
                "or switch it on with `aws dynamodb update-table --stream-specification …`"
            )
        # A label is the time of switching on, in ISO form: it sorts as text.
        return str(max(streams, key=lambda stream: stream["StreamLabel"])["StreamArn"])

    def describe(self) -> StreamDescription:
        """Describe the stream."""
        answer = self._calls.call("describe_stream", StreamArn=self._arn, Limit=1)
        stream = answer["StreamDescription"]
        return StreamDescription(
            name=stream["TableName"],
            arn=stream["StreamArn"],
            created_at=stream["CreationRequestDateTime"].astimezone(UTC),
            # One that was switched off can be read for as long as it keeps records.
            active=stream["StreamStatus"] != "ENABLING",
            retention_seconds=_RETENTION_SECONDS,
            service_time=service_time_of(answer),
        )

    def list_shards(self) -> tuple[Shard, ...]:
        """List every shard that the service still lists, all pages or an error."""
        shards: dict[str, Shard] = {}
        for shard in self._listing():
            if shard.id in shards:
                raise ServiceError(
                    f"{self._address}: the listing names {shard.id} twice, so its pages cannot "
                    "be trusted: list again, or use a server whose paging works"
                )
            shards[shard.id] = shard
        return tuple(shards.values())

    def has_shard(self, shard_id: str) -> bool:
        """Ask for this one shard: missing from a listing is not yet gone."""
        try:
            self._iterator(shard_id, {"ShardIteratorType": "TRIM_HORIZON"})
        except (ShardNotFound, PositionTrimmed):
            return False
        return True

    def open(self, shard_id: str, position: Position) -> str:
        """Return an iterator at a position. A time is refused: `ShardCursor` looks for it."""
        return self._iterator(shard_id, _starting_at(shard_id, position))

    def read(self, iterator: str, max_records: int) -> Page:
        """Read one page."""
        limit = min(max_records, _MOST_RECORDS)
        try:
            response = self._calls.call("get_records", ShardIterator=iterator, Limit=limit)
        except StreamNotFound as error:
            self.describe()  # raises when it is the stream that is not there
            raise ShardNotFound(f"{self._address}: the shard of this iterator is gone") from error
        answer = answer_in(response)
        return Page(answer.records, answer.next_iterator, None, (), service_time_of(response))

    def close(self) -> None:
        """Let go of connections."""
        self._calls.close()

    def _listing(self) -> Iterator[Shard]:
        page: dict[str, Any] = {}
        while True:
            answer = self._calls.call(
                "describe_stream", StreamArn=self._arn, Limit=self._shards_per_page, **page
            )["StreamDescription"]
            yield from map(_shard, answer["Shards"])
            if not answer.get("LastEvaluatedShardId"):
                return
            page = {"ExclusiveStartShardId": answer["LastEvaluatedShardId"]}

    def _iterator(self, shard_id: str, start: dict[str, Any]) -> str:
        try:
            answer = self._calls.call(
                "get_shard_iterator", StreamArn=self._arn, ShardId=shard_id, **start
            )
        except StreamNotFound as error:
            self.describe()  # raises when it is the stream that is not there
            raise ShardNotFound(f"{self._address}: no shard {shard_id}") from error
        return str(answer["ShardIterator"])


def _starting_at(shard_id: str, position: Position) -> dict[str, Any]:
    match position:
        case TrimHorizon():
            return {"ShardIteratorType": "TRIM_HORIZON"}
        case Latest():
            return {"ShardIteratorType": "LATEST"}
        case After(sequence, sub_sequence):
            kind = "AFTER_SEQUENCE_NUMBER" if sub_sequence is None else "AT_SEQUENCE_NUMBER"
            return {"ShardIteratorType": kind, "SequenceNumber": sequence.text}
        case ShardEnd():
            raise InvalidPosition(f"{shard_id} was read to its end: there is nothing to open")
        case AtTime():
            raise InvalidPosition(
                f"{shard_id}: DynamoDB Streams opens no times: read through a ShardCursor"
            )


def _shard(listed: dict[str, Any]) -> Shard:
    numbers = listed.get("SequenceNumberRange", {})
    first = numbers.get("StartingSequenceNumber")
    last = numbers.get("EndingSequenceNumber")
    parent = listed.get("ParentShardId")
    return Shard(
        id=listed["ShardId"],
        parents=(parent,) if parent else (),
        first=SequenceNumber(first) if first else None,
        last=SequenceNumber(last) if last else None,
    )
