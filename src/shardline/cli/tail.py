"""`shardline tail`: records as they arrive, in order."""

import time
from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shardline.cli.options import AsJson, EndpointUrl, Profile, Region, StreamAddress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.services.access import Access
    from shardline.services.records import Record
    from shardline.streams.stream import Stream

_PAUSE_SECONDS = 0.1


class Format(StrEnum):
    """Output formats of a record."""

    PRETTY = "pretty"
    JSON = "json"
    RAW = "raw"


def tail(
    stream: StreamAddress,
    since: Annotated[
        str, typer.Option(help="10m, 2h, an ISO time, trim_horizon, or latest.")
    ] = "latest",
    key: Annotated[
        str | None,
        typer.Option(
            help="Only this partition key. For a table: items whose key has this VALUE, or "
            "NAME=VALUE for one attribute of the key."
        ),
    ] = None,
    shard: Annotated[str | None, typer.Option(help="Only records of this shard.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more records, or end at the tip.")
    ] = True,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="End after this many records.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="raw writes the bytes of the payload and a newline.")
    ] = Format.PRETTY,
    as_json: AsJson = False,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
) -> None:
    """Print records as they arrive, every key in order. Nothing is checkpointed."""
    from shardline.cli.record_format import printer_for
    from shardline.cli.since import parse_since
    from shardline.services.access import Access
    from shardline.streams.stream import stream as open_stream

    position = parse_since(since, datetime.now(UTC))
    show = printer_for(Format.JSON if as_json else form)
    if shard is not None:
        access = Access(region=region, endpoint_url=endpoint_url, profile=profile)
        _require_shard(stream, shard, access)
    left = most
    with open_stream(
        stream, position, region=region, endpoint_url=endpoint_url, profile=profile
    ) as records:
        for record in records_of(records, follow=follow):
            if record is None:
                continue
            if shard is not None and record.shard_id != shard:
                continue
            if key is not None and not has_key(record, key):
                continue
            show(record)
            left = None if left is None else left - 1
            if left == 0:
                return


def records_of(stream: "Stream[Record]", *, follow: bool) -> "Iterator[Record | None]":
    """Yield records, and None at each pause; without `follow`, end at the tip of the stream."""
    while follow or not stream.at_tip:
        record = next(stream)
        yield record
        if record is None:
            time.sleep(_PAUSE_SECONDS)


def has_key(record: "Record", key: str) -> bool:
    """Return true if a record has this partition key, or its item this value in its key.

    Attributes are DynamoDB JSON, `{"id": {"N": "17"}}`; numbers are compared as text.
    """
    partition_key = getattr(record, "partition_key", None)
    if partition_key is not None:
        return bool(partition_key == key)
    attributes: dict[str, dict[str, str]] = getattr(record, "keys", {})
    values = {(name, value) for name, typed in attributes.items() for value in typed.values()}
    return any(key in (value, f"{name}={value}") for name, value in values)


def _require_shard(address: str, shard_id: str, access: "Access") -> None:
    from shardline.errors import ShardNotFound
    from shardline.services.connection import connect

    with closing(connect(address, access)) as service:
        known = service.has_shard(shard_id)
    if not known:
        raise ShardNotFound(
            f"{address} has no shard {shard_id!r}: `shardline shards {address}` lists them"
        )
