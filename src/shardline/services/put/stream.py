"""A Kinesis stream to write to: one connection, and what was learnt about its shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.core.writes.shard_map import ShardMap
from shardline.errors import ConfigurationError, ServiceError
from shardline.services.access import Access, make_client
from shardline.services.addresses import parse_address
from shardline.services.calls import Calls, Patience
from shardline.services.connection import in_region_of
from shardline.services.kinesis import KinesisStream
from shardline.services.put.body import encode_put
from shardline.services.put.requests import PutClient
from shardline.services.wire.handler import answer_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.core.shards import Shard
    from shardline.core.writes.order import Lane
    from shardline.services.addresses import Address
    from shardline.services.put.body import PutEntryResult


class PutStream:
    """One stream, through a botocore client that this object owns and closes.

    A call that gets no whole answer is repeated, though it may have had its effect: an entry may
    then be written twice in a row.
    """

    def __init__(self, client: Any, address: Address, patience: Patience | None = None) -> None:
        self.address = address
        self.shards = ShardMap()
        """Kept for the next writer of this stream, which then need not learn it again."""
        self._stream: dict[str, Any] = (
            {"StreamARN": address.stream_arn}
            if address.stream_arn
            else {"StreamName": address.name}
        )
        patience = patience or Patience()
        self._reader = KinesisStream(client, address, patience)
        self._calls = Calls(PutClient(client, self._stream), str(address), patience)

    def list_shards(self) -> tuple[Shard, ...]:
        """List the shards of the stream."""
        return self._reader.list_shards()

    def put(self, call: Sequence[Lane]) -> list[PutEntryResult]:
        """Make a PutRecords call, and return what it says about each entry."""
        body = encode_put(self._stream, call)
        results: list[PutEntryResult] = answer_in(self._calls.call("put_records", body=body))
        if len(results) != len(call):
            raise ServiceError(
                f"{self.address}: PutRecords answered for {len(results)} of {len(call)} entries: "
                "write the records again"
            )
        return results

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()


def connect_to_put(
    address: str, access: Access | None = None, patience: Patience | None = None
) -> PutStream:
    """Return the stream at `kinesis://name` to write to. Nothing is sent."""
    where = parse_address(address)
    if where.service != "kinesis":
        raise ConfigurationError(
            f"{address}: only Kinesis takes records; a change stream follows from writes to its "
            "table, with shardline.Engine"
        )
    client = make_client("kinesis", in_region_of(where, access or Access()))
    return PutStream(client, where, patience)
