"""How rows are kept as items of a DynamoDB table, and read back.

Items of one app on one stream share a partition key, so that they are found by one query; the
sort key tells header, heartbeats, leases and parked keys apart. Runs share a partition key of
their app. Keys are JSON or prefixed texts, so no two names can run into each other. An attribute
that an older release did not write has its default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.leases.port import position_from_text, position_to_text
from shardline.leases.stored_rows import checked, damage_named

Item = dict[str, Any]

SPACE: Final = "app_and_stream"
ITEM: Final = "item"
HEADER: Final = "header"
WORKER: Final = "worker "
SHARD: Final = "shard "
PARKED: Final = "parked "
RUN: Final = "run "
VERSION_KEY: Final = {SPACE: "shardline", ITEM: "version"}
_TIMES: Final = ("stream_created_at", "as_of", "unlisted_since")

_to_dynamodb: Final = TypeSerializer().serialize
_from_dynamodb: Final = TypeDeserializer().deserialize


def space_of(app_name: str, stream_name: str) -> str:
    """Return the partition key of an app on a stream."""
    return json.dumps([app_name, stream_name])


def key_of(app_name: str, stream_name: str, item: str) -> Item:
    """Return the key of an item of an app on a stream."""
    return {SPACE: space_of(app_name, stream_name), ITEM: item}


def shard_key(app_name: str, stream_name: str, shard_id: str) -> Item:
    """Return the key of a lease row."""
    return key_of(app_name, stream_name, SHARD + shard_id)


def run_key(app_name: str, run_id: str) -> Item:
    """Return the key of the row of a run."""
    return {SPACE: runs_of(app_name), ITEM: RUN + run_id}


def runs_of(app_name: str) -> str:
    """Return the partition key of the runs of an app."""
    return json.dumps([app_name])


def parked_key(parked: ParkedKey) -> Item:
    """Return the key of a parked key."""
    item = PARKED + json.dumps([parked.shard_id, parked.key])
    return key_of(parked.app_name, parked.stream_name, item)


def still(expected: LeaseRow | None) -> Item | None:
    """Return the condition that a lease row is still the expected one."""
    if expected is None:
        return None
    return {
        "lease_owner": expected.lease_owner,
        "epoch": expected.epoch,
        "lease_count": expected.lease_count,
    }


def encode(item: Mapping[str, Any]) -> Item:
    """Return values in DynamoDB's notation."""
    return {name: _to_dynamodb(value) for name, value in item.items()}


def decode(item: Mapping[str, Any]) -> Item:
    """Return values from DynamoDB's notation."""
    return {name: _from_dynamodb(value) for name, value in item.items()}


def row_item(row: LeaseRow) -> Item:
    """Return a lease row as an item."""
    return {
        **_values(row),
        "parents": list(row.parents),
        "checkpoint": position_to_text(row.checkpoint),
        **{name: _time_text(getattr(row, name)) for name in _TIMES},
        **shard_key(row.app_name, row.stream_name, row.shard_id),
    }


@damage_named("lease row")
def to_row(item: Item) -> LeaseRow:
    """Return a lease row from its item."""
    values = _fields_of(LeaseRow, item)
    for name in _TIMES:
        values[name] = values[name] and datetime.fromisoformat(values[name])
    values["parents"] = tuple(values["parents"])
    values["checkpoint"] = position_from_text(values["checkpoint"])
    return checked(LeaseRow(**values))


def heartbeat_item(beat: Heartbeat) -> Item:
    """Return a heartbeat as an item."""
    key = key_of(beat.app_name, beat.stream_name, WORKER + beat.worker)
    return {**_values(beat), "asks": list(beat.asks), **key}


@damage_named("heartbeat")
def to_heartbeat(item: Item) -> Heartbeat:
    """Return a heartbeat from its item."""
    values = _fields_of(Heartbeat, item)
    return checked(Heartbeat(**values | {"asks": tuple(values["asks"])}))


def header_item(header: Header) -> Item:
    """Return a header row as an item."""
    return {
        **_values(header),
        "stream_created_at": header.stream_created_at.isoformat(),
        "start": position_to_text(header.start),
        "began_at": _time_text(header.began_at),
        **key_of(header.app_name, header.stream_name, HEADER),
    }


@damage_named("header row")
def to_header(item: Item) -> Header:
    """Return a header row from its item."""
    values = _fields_of(Header, item)
    began_at = values.get("began_at")
    values |= {
        "stream_created_at": datetime.fromisoformat(values["stream_created_at"]),
        "start": position_from_text(values["start"]),
        "began_at": began_at and datetime.fromisoformat(began_at),
    }
    return checked(Header(**values))


def run_item(run: Run) -> Item:
    """Return the row of a run as an item."""
    created_at = run.created_at.isoformat()
    return {**_values(run), "created_at": created_at, **run_key(run.app_name, run.run_id)}


@damage_named("row of a run")
def to_run(item: Item) -> Run:
    """Return the row of a run from its item."""
    values = _fields_of(Run, item)
    return checked(Run(**values | {"created_at": datetime.fromisoformat(values["created_at"])}))


def parked_item(parked: ParkedKey) -> Item:
    """Return a parked key as an item."""
    return {**_values(parked), **parked_key(parked)}


@damage_named("parked key")
def to_parked_key(item: Item) -> ParkedKey:
    """Return a parked key from its item."""
    return checked(ParkedKey(**_fields_of(ParkedKey, item)))


def _values(value: LeaseRow | Heartbeat | Header | Run | ParkedKey) -> Item:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _time_text(time_or_none: datetime | None) -> str | None:
    return None if time_or_none is None else time_or_none.isoformat()


def _fields_of(
    kind: type[LeaseRow | Heartbeat | Header | Run | ParkedKey], item: Item
) -> dict[str, Any]:
    """Pick the fields, numbers as int because DynamoDB gives Decimal, missing ones by default."""
    values: dict[str, Any] = {}
    for field in fields(kind):
        value = item.get(field.name, None if field.default is MISSING else field.default)
        values[field.name] = int(value) if isinstance(value, Decimal) else value
    return values
