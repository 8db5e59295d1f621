"""Opens the `StreamService` of an address."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardline.errors import ConfigurationError
from shardline.services.access import Access, make_client
from shardline.services.addresses import parse_address
from shardline.services.calls import Calls, Patience
from shardline.services.cbor_client import WIRES
from shardline.services.fan_out.consumers import check_consumer_name
from shardline.services.kinesis import KinesisStream
from shardline.services.table_scan import TableScan

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.services.addresses import Address
    from shardline.services.port import StreamService
    from shardline.services.snapshot_stream import SnapshotSettings


def connect(
    address: str,
    access: Access | None = None,
    *,
    patience: Patience | None = None,
    wire: str = "json",
    fan_out: str | None = None,
    snapshot: SnapshotSettings | None = None,
    created_from: datetime | None = None,
) -> StreamService:
    """Return the stream at an address. Nothing is sent: a missing stream fails at the first call.

    What is not given comes from the usual AWS environment variables and files. A server on this
    machine (`Access(endpoint_url="http://127.0.0.1:…")`) needs neither credentials nor region.
    `wire="cbor"` uses the format of the AWS SDK for Java, which is decoded in half the time.
    `fan_out` names the registered consumer under which `shard_reader` subscribes to shards. With
    `snapshot` the items of a table come before its changes. A table gets a new stream each time
    that streaming is switched on: `created_from` means the first one created then or later.
    """
    where = parse_address(address)
    access = in_region_of(where, access or Access())
    if wire not in WIRES or (wire == "cbor" and where.service != "kinesis"):
        raise ConfigurationError(
            f"{address}: wire={wire!r} is not available there: leave it out"
            + (", or write wire='json' or wire='cbor'" if where.service == "kinesis" else "")
        )
    if fan_out is not None and where.service != "kinesis":
        raise ConfigurationError(
            f"{address}: only Kinesis has enhanced fan-out: leave fan_out={fan_out!r} out"
        )
    if snapshot is not None and where.service != "dynamodb":
        raise ConfigurationError(
            f"{address}: only a table has a snapshot: write dynamodb://TABLE, or another start"
        )
    if fan_out is not None:
        from shardline.services.fan_out.push import make_push_client
        from shardline.services.fan_out.stream import FanOutStream

        check_consumer_name(fan_out)
        client, push_client = make_client("kinesis", access), make_push_client(access)
        return FanOutStream(client, push_client, where, fan_out, patience, wire)
    if where.service == "kinesis":
        return KinesisStream(make_client("kinesis", access), where, patience, wire=wire)
    from shardline.services.dynamodb_streams import DynamoDBStream

    client = make_client("dynamodbstreams", access)
    stream = DynamoDBStream(client, where, patience, created_from=created_from)
    if snapshot is None:
        return stream
    from shardline.services.snapshot_stream import SnapshotStream

    scan = connect_table(address, access, snapshot.segments, patience=patience)
    return SnapshotStream(stream, scan, snapshot.units_per_second)


def connect_table(
    address: str, access: Access, segments: int = 1, *, patience: Patience | None = None
) -> TableScan:
    """Return a scan of the table at an address, in so many segments. Nothing is sent yet."""
    where = parse_address(address)
    client = make_client("dynamodb", in_region_of(where, access))
    return TableScan(Calls(client, str(where), patience or Patience()), where.name, segments)


def in_region_of(where: Address, access: Access) -> Access:
    """Return the access with the region that an ARN names. Raises if another one was given."""
    if where.region and access.region and where.region != access.region:
        raise ConfigurationError(
            f"{where}: the ARN is in {where.region}, but region={access.region!r} was given: "
            "drop one"
        )
    return replace(access, region=access.region or where.region)
