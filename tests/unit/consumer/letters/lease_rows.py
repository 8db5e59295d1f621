"""Lease rows in memory, as a worker leaves them, for commands that take them over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, LeaseRow
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from shardline.leases.port import LeaseTable

CREATED = datetime(2026, 11, 1, tzinfo=UTC)
APP, STREAM = "billing", "orders"
WORKER = "worker-1"


def after(number: int) -> Position:
    return After(SequenceNumber(str(number)))


def lease_row(
    shard_id: str,
    checkpoint: Position = TRIM_HORIZON,
    *,
    parents: tuple[str, ...] = (),
    epoch: int = 4,
    owner: str | None = WORKER,
) -> LeaseRow:
    row = LeaseRow(APP, STREAM, shard_id, CREATED, parents, owner, 1, epoch, checkpoint)
    if checkpoint == SHARD_END:
        return replace(row, completed=True, lease_owner=None)
    return row


def lease_table(*rows: LeaseRow, table: LeaseTable | None = None) -> LeaseTable:
    """Return a table that has these rows and a header."""
    table = table or MemoryLeaseTable()
    table.prepare()
    table.create_header(Header(APP, STREAM, CREATED, TRIM_HORIZON))
    for row in rows:
        table.swap_row(row, None)
    return table


def park(table: LeaseTable, row: LeaseRow, key: str, letter_id: str) -> None:
    """Park a key as the owner of the row does."""
    assert row.lease_owner is not None
    parked = ParkedKey(APP, STREAM, row.shard_id, key, letter_id, row.epoch)
    table.park_key(parked, row.lease_owner)


def rows_of(table: LeaseTable) -> dict[str, LeaseRow]:
    return {row.shard_id: row for row in table.scan_rows(APP, STREAM, None, 100).rows}


def parked_keys(table: LeaseTable) -> list[tuple[str, str]]:
    """Return the shards and keys that are parked."""
    rows = table.read_parked_keys(APP, STREAM, tuple(rows_of(table)))
    return sorted((row.shard_id, row.key) for row in rows)
