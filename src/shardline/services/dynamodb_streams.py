"""A stream of DynamoDB as a `StreamService`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from shardline.core.positions import TRIM_HORIZON, AtTime, Position, TrimHorizon
from shardline.errors import InvalidPosition, PositionTrimmed, ShardNotFound, StreamNotFound
from shardline.services.calls import Calls, Patience
from shardline.services.iterators import iterator_parameters
from shardline.services.listing import list_whole
from shardline.services.port import Page, StreamDescription
from shardline.services.presence import StreamPresence
from shardline.services.read_client import ReadClient
from shardline.services.service_clock import ServiceClock
from shardline.services.wire.descriptions import (
    decode_dynamodb_stream,
    decode_iterator,
    decode_table_streams,
)
from shardline.services.wire.handler import answer_in, decode_answers_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from shardline.core.shards import Shard
    from shardline.services.addresses import Address
    from shardline.services.wire.answer import RecordsAnswer
    from shardline.services.wire.descriptions import ShardPage, TableStreams

_MOST_RECORDS: Final = 1_000
_HORIZON_ATTEMPTS: Final = 5
_MOST_ITERATORS: Final = 10_000


def _decode_records(body: bytes) -> RecordsAnswer:
    # Arrow and numpy are not needed by who only lists a stream, such as the keeper of leases.
    from shardline.services.wire.dynamodb import decode_dynamodb

    return decode_dynamodb(body)


_DECODERS: Final = {
    "DescribeStream": decode_dynamodb_stream,
    "GetShardIterator": decode_iterator,
    "ListStreams": decode_table_streams,
}


class DynamoDBStream:
    """The stream of one table, through a botocore client that this object owns and closes.

    An address without an ARN means the table's newest stream at the first call, or the oldest one
    that was created at a time or later. It stays that one: a newer stream of the table has other
    shards. `describe` names the next one once there is one.
    """

    finds_times = False

    def __init__(
        self,
        client: Any,
        address: Address,
        patience: Patience | None = None,
        shards_per_page: int = 100,
        created_from: datetime | None = None,
    ) -> None:
        self._address = address
        self._created_from = created_from
        self._patience = patience or Patience()
        self._shards_per_page = shards_per_page
        decode_answers_with(_DECODERS, client)
        self._calls = Calls(ReadClient(client, _decode_records), str(address), self._patience)
        self._clock = ServiceClock()
        self._presence = StreamPresence(self._describe)
        self._filters_children = "ShardFilter" in _members(client, "DescribeStream")
        self._at_horizon: dict[str, str] = {}
        """The shards of iterators at the trim horizon from which no record was read yet."""

    @cached_property
    def _arn(self) -> str:
        if self._address.stream_arn is not None:
            return self._address.stream_arn
        arns = self._table_arns()
        if self._created_from is None:
            return arns[-1]
        for arn in arns:
            with suppress(StreamNotFound):
                if self._describe(arn)[0].created_at >= self._created_from:
                    return arn
        raise StreamNotFound(
            f"{self._address}: it has no stream that was created at {self._created_from} or later"
        )

    def describe(self) -> StreamDescription:
        description, page = self._describe()
        description = replace(description, service_time=self._clock.now())
        if page.enabled or self._address.stream_arn:
            return description
        arns = self._table_arns()
        newer = arns[arns.index(description.arn) + 1 :] if description.arn in arns else arns
        return replace(description, newer_arn=newer[0] if newer else None)

    def list_shards(self) -> tuple[Shard, ...]:
        return list_whole(self._pages, str(self._address), self._patience)

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        """List the children of a shard, by a filter of the service where botocore knows it."""
        if not self._filters_children:
            return tuple(shard for shard in self.list_shards() if shard_id in shard.parents)
        children = {"ShardFilter": {"Type": "CHILD_SHARDS", "ShardId": shard_id}}
        found = list_whole(
            partial(self._pages, may_be_empty=True, **children), str(self._address), self._patience
        )
        # A server that does not know the filter lists everything.
        return tuple(shard for shard in found if shard_id in shard.parents)

    def has_shard(self, shard_id: str) -> bool:
        try:
            self.open(shard_id, TRIM_HORIZON)
        except (ShardNotFound, PositionTrimmed):
            return False
        return True

    def open(self, shard_id: str, position: Position) -> str:
        """Return an iterator at a position. A time is refused: `ShardCursor` looks for it."""
        if isinstance(position, AtTime):
            raise InvalidPosition(
                f"{shard_id}: DynamoDB Streams opens no times: read through a ShardCursor"
            )
        if not isinstance(position, TrimHorizon):
            return self._iterator(shard_id, position)
        for attempt in range(_HORIZON_ATTEMPTS):
            try:
                iterator = self._iterator(shard_id, position)
            except PositionTrimmed:
                if attempt + 1 == _HORIZON_ATTEMPTS:
                    raise
                self._patience.sleep(self._patience.delay_seconds(attempt))
            else:
                self._note_horizon(iterator, shard_id)
                return iterator
        raise AssertionError("the last attempt returns or raises")

    def read(self, iterator: str, max_records: int) -> Page:
        """Read one page.

        The oldest record may expire between opening at the horizon and reading, and the service
        then says that the position is trimmed. That is no loss: the horizon is opened again.
        """
        limit = min(max_records, _MOST_RECORDS)
        shard_id = self._at_horizon.get(iterator)
        if shard_id is None:
            return self._read(iterator, limit)
        for attempt in range(_HORIZON_ATTEMPTS):
            try:
                page = self._read(iterator, limit)
            except PositionTrimmed:
                self._at_horizon.pop(iterator, None)
                if attempt + 1 == _HORIZON_ATTEMPTS:
                    raise
                iterator = self.open(shard_id, TRIM_HORIZON)
            else:
                self._at_horizon.pop(iterator, None)
                if page.next_iterator is not None and not page.records.num_rows:
                    self._note_horizon(page.next_iterator, shard_id)
                return page
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        self._calls.close()

    def _table_arns(self) -> list[str]:
        """Return the table's streams, the oldest first: switching streaming on makes a new one."""
        arns: dict[str, str] = {}
        start: dict[str, str] = {}
        while True:
            page: TableStreams = self._ask("list_streams", TableName=self._address.name, **start)
            arns |= page.arns
            if not page.next_page:
                break
            start = {"ExclusiveStartStreamArn": page.next_page}
        if not arns:
            raise StreamNotFound(
                f"{self._address}: no such table, or its stream is off: check name and region, "
                "or switch it on with `aws dynamodb update-table --stream-specification …`"
            )
        return [arns[label] for label in sorted(arns)]

    def _describe(self, arn: str | None = None) -> tuple[StreamDescription, ShardPage]:
        described: tuple[StreamDescription, ShardPage] = self._ask(
            "describe_stream", StreamArn=arn or self._arn, Limit=1
        )
        return described

    def _pages(self, *, may_be_empty: bool = False, **parameters: Any) -> Iterator[ShardPage]:
        start: dict[str, str] = {}
        while True:
            _, page = self._ask(
                "describe_stream",
                StreamArn=self._arn,
                Limit=self._shards_per_page,
                **parameters,
                **start,
            )
            yield page._replace(enabled=False) if may_be_empty else page
            if not page.next_page:
                return
            start = {"ExclusiveStartShardId": page.next_page}

    def _iterator(self, shard_id: str, position: Position) -> str:
        parameters = iterator_parameters(shard_id, position, "SequenceNumber")
        try:
            return str(
                self._ask("get_shard_iterator", StreamArn=self._arn, ShardId=shard_id, **parameters)
            )
        except StreamNotFound as error:
            self._presence.require()
            raise ShardNotFound(f"{self._address}: no shard {shard_id}") from error

    def _read(self, iterator: str, limit: int) -> Page:
        call = partial(self._calls.call, "get_records", retry_throttled=False)
        try:
            response, service_time = self._clock.ask(
                partial(call, ShardIterator=iterator, Limit=limit)
            )
        except StreamNotFound as error:
            self._presence.require()
            raise ShardNotFound(f"{self._address}: the shard of this iterator is gone") from error
        answer: RecordsAnswer = answer_in(response)
        return Page(answer.records, answer.next_iterator, None, (), service_time)

    def _note_horizon(self, iterator: str, shard_id: str) -> None:
        while len(self._at_horizon) >= _MOST_ITERATORS:
            self._at_horizon.pop(next(iter(self._at_horizon)), None)
        self._at_horizon[iterator] = shard_id

    def _ask(self, operation: str, **parameters: Any) -> Any:
        return answer_in(self._calls.call(operation, **parameters))


def _members(client: Any, operation: str) -> Any:
    return client.meta.service_model.operation_model(operation).input_shape.members
