"""Rows as items of a DynamoDB table: their keys, and their values in its notation.

Items of one app on one stream share a partition key, so that they are found by one query; the
sort key separates header, heartbeats, leases and parked keys. Runs share a partition key of
their app. Keys are JSON or prefixed texts, so no two names can run into each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.leases.stored_rows import AnyRow, values_of

Item = dict[str, Any]

SPACE: Final = "app_and_stream"
ITEM: Final = "item"
HEADER: Final = "header"
WORKER: Final = "worker "
SHARD: Final = "shard "
PARKED: Final = "parked "
RUN: Final = "run "
VERSION_KEY: Final = {SPACE: "shardline", ITEM: "version"}

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


def item_of(row: AnyRow) -> Item:
    """Return a row as an item."""
    return values_of(row) | key_of_row(row)


def key_of_row(row: AnyRow) -> Item:
    """Return the key of the item of a row."""
    match row:
        case LeaseRow():
            return shard_key(row.app_name, row.stream_name, row.shard_id)
        case Heartbeat():
            return key_of(row.app_name, row.stream_name, WORKER + row.worker)
        case Header():
            return key_of(row.app_name, row.stream_name, HEADER)
        case Run():
            return run_key(row.app_name, row.run_id)
        case ParkedKey():
            item = PARKED + json.dumps([row.shard_id, row.key])
            return key_of(row.app_name, row.stream_name, item)
