"""A stream of Kinesis as a `StreamService`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from shardline.core.positions import TRIM_HORIZON, Position
from shardline.errors import ShardNotFound, StreamNotFound
from shardline.services.calls import Calls, Patience
from shardline.services.cbor_client import use_cbor
from shardline.services.exact_times import send_exact_times
from shardline.services.iterators import iterator_parameters
from shardline.services.listing import list_whole
from shardline.services.port import Page, StreamDescription
from shardline.services.presence import StreamPresence
from shardline.services.read_client import ReadClient
from shardline.services.service_clock import ServiceClock
from shardline.services.wire.descriptions import (
    decode_iterator,
    decode_kinesis_listing,
    decode_kinesis_stream,
)
from shardline.services.wire.handler import answer_in, decode_answers_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.core.shards import Shard
    from shardline.services.addresses import Address
    from shardline.services.wire.answer import RecordsAnswer
    from shardline.services.wire.descriptions import ShardPage

_MOST_RECORDS: Final = 10_000


def _decode_records(body: bytes) -> RecordsAnswer:
    # Arrow and numpy are not needed by who only lists a stream, such as the keeper of leases.
    from shardline.services.wire.kinesis import decode_kinesis

    return decode_kinesis(body)


_DECODERS: Final = {
    "DescribeStreamSummary": decode_kinesis_stream,
    "GetShardIterator": decode_iterator,
    "ListShards": decode_kinesis_listing,
}


class KinesisStream:
    """One stream of Kinesis, through a botocore client that this object owns and closes."""

    finds_times = True

    def __init__(
        self,
        client: Any,
        address: Address,
        patience: Patience | None = None,
        shards_per_page: int = 1_000,
        wire: str = "json",
    ) -> None:
        self._address = address
        self._patience = patience or Patience()
        self._shards_per_page = shards_per_page
        self._stream: dict[str, Any] = (
            {"StreamARN": address.stream_arn}
            if address.stream_arn
            else {"StreamName": address.name}
        )
        decode_answers_with(_DECODERS, client)
        send_exact_times(client)
        if wire == "cbor":
            use_cbor(client, "kinesis")
        reader = ReadClient(client, _decode_records, wire)
        self._calls = Calls(reader, str(address), self._patience)
        self._clock = ServiceClock()
        self._presence = StreamPresence(self.describe)

    def describe(self) -> StreamDescription:
        response, service_time = self._clock.ask(
            lambda: self._calls.call("describe_stream_summary", **self._stream)
        )
        description: StreamDescription = answer_in(response)
        return replace(description, service_time=service_time)

    def list_shards(self) -> tuple[Shard, ...]:
        return list_whole(self._pages, str(self._address), self._patience)

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        """List the children of a shard: their ids come after its own."""
        after = list_whole(partial(self._pages, shard_id), str(self._address), self._patience)
        return tuple(shard for shard in after if shard_id in shard.parents)

    def has_shard(self, shard_id: str) -> bool:
        try:
            self.open(shard_id, TRIM_HORIZON)
        except ShardNotFound:
            return False
        return True

    def open(self, shard_id: str, position: Position) -> str:
        parameters = iterator_parameters(shard_id, position)
        try:
            return str(
                self._ask("get_shard_iterator", **self._stream, ShardId=shard_id, **parameters)
            )
        except StreamNotFound as error:
            self._presence.require()
            raise ShardNotFound(f"{self._address}: no shard {shard_id}") from error

    def read(self, iterator: str, max_records: int) -> Page:
        response, service_time = self._clock.ask(
            partial(
                self._calls.call,
                "get_records",
                retry_throttled=False,
                ShardIterator=iterator,
                Limit=min(max_records, _MOST_RECORDS),
            )
        )
        answer: RecordsAnswer = answer_in(response)
        return Page(
            answer.records, answer.next_iterator, answer.behind_ms, answer.children, service_time
        )

    def close(self) -> None:
        self._calls.close()

    def _pages(self, after: str | None = None) -> Iterator[ShardPage]:
        page = dict(self._stream)
        if after is not None:
            page["ExclusiveStartShardId"] = after
        while True:
            listed: ShardPage = self._ask("list_shards", **page, MaxResults=self._shards_per_page)
            yield listed._replace(enabled=after is None)  # nothing need come after a shard
            if not listed.next_page:
                return
            page = {"NextToken": listed.next_page}

    def _ask(self, operation: str, **parameters: Any) -> Any:
        return answer_in(self._calls.call(operation, **parameters))
