"""The lease table of the Kinesis Client Library: its checkpoints as lease rows of ours.

A row there names a shard (`leaseKey`), the last processed record (`checkpoint` and
`checkpointSubSequenceNumber`) or SHARD_END, TRIM_HORIZON, LATEST, AT_TIMESTAMP. The library deletes
the row of a finished shard when all of its children have begun; so an ancestor of a shard that has
a row, and that has none itself, is finished or was never wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore import exceptions as aws

from shardline.core.gaps import first_as_of, later_as_of
from shardline.core.leasing.rows import Header, LeaseRow
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import ConfigurationError
from shardline.services.access import Access, make_client
from shardline.services.failures import read_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.core.shards import Shard
    from shardline.services.port import StreamDescription

_NO_PLACE: Final = frozenset({"LATEST", "AT_TIMESTAMP"})
"""The library asks for these anew at each start: nothing was processed yet."""


@dataclass(frozen=True, slots=True)
class KclLease:
    """One row of the library's table."""

    shard_id: str
    checkpoint: str
    sub_sequence: int
    counter: int
    """Moves with every renewal."""
    owner: str | None


def read_kcl_leases(table_name: str, stream_name: str, access: Access) -> tuple[KclLease, ...]:
    """Read the rows of a stream. An app of several streams has their names in its keys."""
    client = make_client("dynamodb", access)
    try:
        pages = client.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
        items = [item for page in pages for item in page["Items"]]
    except (aws.ClientError, aws.BotoCoreError) as error:
        where = f"the DynamoDB table {table_name!r}"
        raise read_failure(error, where, client.meta.endpoint_url).error from error
    finally:
        client.close()
    return leases_of(items, table_name, stream_name)


def leases_of(
    items: Iterable[Mapping[str, Any]], table_name: str, stream_name: str
) -> tuple[KclLease, ...]:
    """Return the leases in items of the library's table, in DynamoDB's JSON."""
    found = []
    for item in items:
        if "leaseKey" not in item or "checkpoint" not in item:
            raise ConfigurationError(
                f"the DynamoDB table {table_name!r} is not a lease table of the Kinesis Client "
                "Library: name that of your application, which has the application's name"
            )
        *stream, shard_id = item["leaseKey"]["S"].split(":")
        if stream and stream_name not in stream:
            continue
        found.append(
            KclLease(
                shard_id,
                item["checkpoint"]["S"],
                int(item.get("checkpointSubSequenceNumber", {"N": "0"})["N"]),
                int(item.get("leaseCounter", {"N": "0"})["N"]),
                item.get("leaseOwner", {}).get("S"),
            )
        )
    return tuple(found)


def rows_of(
    leases: Iterable[KclLease],
    shards: Iterable[Shard],
    header: Header,
    described: StreamDescription,
) -> tuple[LeaseRow, ...]:
    """Return lease rows with the library's places; what has none begins at the header's start.

    Whether the record at a place is still kept is not known here: a worker asks before it reads.
    """
    listed = {shard.id: shard for shard in shards}
    places = {lease.shard_id: _position(lease, header.start) for lease in leases}
    finished = _ancestors(places, listed) - places.keys()
    places |= dict.fromkeys(finished, SHARD_END)
    return tuple(
        _row(shard_id, position, listed.get(shard_id), header, described)
        for shard_id, position in sorted(places.items())
    )


def without_place(leases: Iterable[KclLease]) -> tuple[str, ...]:
    """Return the shards of which nothing was processed since the app began at LATEST or a time."""
    return tuple(sorted(lease.shard_id for lease in leases if lease.checkpoint in _NO_PLACE))


def _position(lease: KclLease, start: Position) -> Position:
    if lease.checkpoint in _NO_PLACE:
        return start
    if lease.checkpoint == "SHARD_END":
        return SHARD_END
    if lease.checkpoint == "TRIM_HORIZON":
        return TRIM_HORIZON
    return After(SequenceNumber(lease.checkpoint), lease.sub_sequence)


def _ancestors(shard_ids: Iterable[str], listed: Mapping[str, Shard]) -> set[str]:
    found: set[str] = set()
    ahead = [listed[shard_id] for shard_id in shard_ids if shard_id in listed]
    while ahead:
        for parent in ahead.pop().parents:
            if parent in listed and parent not in found:
                found.add(parent)
                ahead.append(listed[parent])
    return found


def _row(
    shard_id: str,
    position: Position,
    shard: Shard | None,
    header: Header,
    described: StreamDescription,
) -> LeaseRow:
    if described.service_time is None:
        raise ConfigurationError("the answer of the service has no time: try again")
    now, retention = described.service_time, timedelta(seconds=described.retention_seconds)
    if isinstance(position, After):
        as_of = later_as_of(known_at=now, retention=retention)
    else:
        as_of = first_as_of(position, known_at=now, retention=retention)
    return LeaseRow(
        header.app_name,
        header.stream_name,
        shard_id,
        header.stream_created_at,
        parents=shard.parents if shard else (),
        lease_count=1,
        epoch=1,
        checkpoint=position,
        as_of=max(as_of, header.stream_created_at),
        completed=position is SHARD_END,
    )
