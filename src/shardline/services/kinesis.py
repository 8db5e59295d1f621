"""Kinesis Data Streams behind the port."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from shardline.core.positions import After, AtTime, Latest, Position, ShardEnd, TrimHorizon
from shardline.core.shards import HashRange, SequenceNumber, Shard
from shardline.errors import InvalidPosition, ServiceError, ShardNotFound, StreamNotFound
from shardline.services.calls import Calls, Patience, service_time_of
from shardline.services.cbor_client import speak_cbor
from shardline.services.port import Page, StreamDescription
from shardline.services.wire.columns import KINESIS_COLUMNS
from shardline.services.wire.handler import answer_in, decode_records_with
from shardline.services.wire.kinesis import decode_kinesis

if TYPE_CHECKING:
    import pyarrow as pa

    from shardline.services.addresses import Address

_MOST_RECORDS: Final = 10_000


class KinesisStream:
    """One stream of Kinesis, through a botocore client that this object owns from now on."""

    finds_times = True
    columns: pa.Schema = KINESIS_COLUMNS

    def __init__(
        self,
        client: Any,
        address: Address,
        patience: Patience | None = None,
        shards_per_page: int = 1_000,
        wire: str = "json",
    ) -> None:
        self._address = address
        self._shards_per_page = shards_per_page
        self._stream = (
            {"StreamARN": address.stream_arn}
            if address.stream_arn
            else {"StreamName": address.name}
        )
        decode_records_with(decode_kinesis, client, "kinesis")
        if wire == "cbor":
            speak_cbor(client, "kinesis")
        self._calls = Calls(client, str(address), patience or Patience())

    def describe(self) -> StreamDescription:
        """Describe the stream."""
        answer = self._calls.call("describe_stream_summary", **self._stream)
        summary = answer["StreamDescriptionSummary"]
        return StreamDescription(
            name=summary["StreamName"],
            arn=summary["StreamARN"],
            created_at=summary["StreamCreationTimestamp"].astimezone(UTC),
            # A stream that is being resharded is UPDATING and can be read all the while.
            active=summary["StreamStatus"] in ("ACTIVE", "UPDATING"),
            retention_seconds=summary["RetentionPeriodHours"] * 3600,
            service_time=service_time_of(answer),
        )

    def list_shards(self) -> tuple[Shard, ...]:
        """List every shard that the service still lists, all pages or an error."""
        shards: dict[str, Shard] = {}
        page: dict[str, Any] = self._stream
        while True:
            answer = self._calls.call("list_shards", **page, MaxResults=self._shards_per_page)
            for listed in answer["Shards"]:
                shard = _shard(listed)
                if shard.id in shards:
                    raise ServiceError(
                        f"{self._address}: the listing names {shard.id} twice, so its pages cannot "
                        "be trusted: list again, or use a server whose paging works"
                    )
                shards[shard.id] = shard
            if not answer.get("NextToken"):
                return tuple(shards.values())
            page = {"NextToken": answer["NextToken"]}

    def has_shard(self, shard_id: str) -> bool:
        """Ask for this one shard: missing from a listing is not yet gone."""
        try:
            self._iterator(shard_id, {"ShardIteratorType": "TRIM_HORIZON"})
        except ShardNotFound:
            return False
        return True

    def open(self, shard_id: str, position: Position) -> str:
        """Return an iterator at a position."""
        return self._iterator(shard_id, _starting_at(shard_id, position))

    def read(self, iterator: str, max_records: int) -> Page:
        """Read one page."""
        limit = min(max_records, _MOST_RECORDS)
        response = self._calls.call("get_records", ShardIterator=iterator, Limit=limit)
        answer = answer_in(response)
        return Page(
            answer.records,
            answer.next_iterator,
            answer.behind_ms,
            answer.children,
            service_time_of(response),
        )

    def close(self) -> None:
        """Let go of connections."""
        self._calls.close()

    def _iterator(self, shard_id: str, start: dict[str, Any]) -> str:
        try:
            answer = self._calls.call(
                "get_shard_iterator", **self._stream, ShardId=shard_id, **start
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
        case AtTime(time):
            return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": _up_to_millisecond(time)}
        case After(sequence, sub_sequence):
            kind = "AFTER_SEQUENCE_NUMBER" if sub_sequence is None else "AT_SEQUENCE_NUMBER"
            return {"ShardIteratorType": kind, "StartingSequenceNumber": sequence.text}
        case ShardEnd():
            raise InvalidPosition(f"{shard_id} was read to its end: there is nothing to open")


def _shard(listed: dict[str, Any]) -> Shard:
    numbers = listed["SequenceNumberRange"]
    hashes = listed["HashKeyRange"]
    last = numbers.get("EndingSequenceNumber")
    return Shard(
        id=listed["ShardId"],
        parents=tuple(
            listed[name] for name in ("ParentShardId", "AdjacentParentShardId") if listed.get(name)
        ),
        hash_range=HashRange(int(hashes["StartingHashKey"]), int(hashes["EndingHashKey"])),
        first=SequenceNumber(numbers["StartingSequenceNumber"]),
        last=SequenceNumber(last) if last else None,
    )


def _up_to_millisecond(time: datetime) -> datetime:
    """Round up to what the service stamps: a record of the millisecond before lies before it."""
    return time + timedelta(microseconds=-time.microsecond % 1000)
