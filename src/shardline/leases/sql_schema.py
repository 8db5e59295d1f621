"""The SQL tables of lease rows, how a row is stored in them, and how older ones are extended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.leases.stored_rows import AnyRow, values_of

VERSION: Final = 1
"""Columns are added under the same version: an older release reads what it knows."""

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")  # compares bytes, as SQLite does
_ZERO: Final = sa.text("0")
_EMPTY: Final = sa.text("''")
_FALSE: Final = sa.false()

SCHEMA: Final = sa.MetaData()
LEASES: Final = sa.Table(
    "shardline_leases",
    SCHEMA,
    sa.Column("app_name", _ID, primary_key=True),
    sa.Column("stream_name", _ID, primary_key=True),
    sa.Column("shard_id", _ID, primary_key=True),
    sa.Column("stream_created_at", sa.Text, nullable=False),
    sa.Column("parents", sa.Text, nullable=False),
    sa.Column("lease_owner", sa.Text),
    sa.Column("lease_count", sa.BigInteger, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("checkpoint", sa.Text, nullable=False),
    sa.Column("as_of", sa.Text),
    sa.Column("completed", sa.Boolean, nullable=False),
    sa.Column("given_to", sa.Text),
    sa.Column("gap", sa.Text, nullable=False),
    sa.Column("unlisted_since", sa.Text),
    sa.Column("starts", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("halted", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("lag_ms", sa.BigInteger),
)
HEARTBEATS: Final = sa.Table(
    "shardline_heartbeats",
    SCHEMA,
    sa.Column("app_name", _ID, primary_key=True),
    sa.Column("stream_name", _ID, primary_key=True),
    sa.Column("worker", _ID, primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("held", sa.BigInteger, nullable=False),
    sa.Column("capacity", sa.BigInteger),
    sa.Column("leaving", sa.Boolean, nullable=False),
    sa.Column("asks", sa.Text, nullable=False),
    sa.Column("lag_ms", sa.BigInteger),
    sa.Column("records_per_second", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("bytes_per_second", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("retries", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("dead_letters", sa.BigInteger, nullable=False, server_default=_ZERO),
)
HEADERS: Final = sa.Table(
    "shardline_headers",
    SCHEMA,
    sa.Column("app_name", _ID, primary_key=True),
    sa.Column("stream_name", _ID, primary_key=True),
    sa.Column("stream_created_at", sa.Text, nullable=False),
    sa.Column("start", sa.Text, nullable=False),
    sa.Column("settled", sa.Boolean, nullable=False),
    sa.Column("moves", sa.BigInteger, nullable=False),
    sa.Column("latest", sa.Boolean, nullable=False, server_default=_FALSE),
    sa.Column("began_at", sa.Text),
)
RUNS: Final = sa.Table(
    "shardline_runs",
    SCHEMA,
    sa.Column("app_name", _ID, primary_key=True),
    sa.Column("run_id", _ID, primary_key=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("workers", sa.BigInteger, nullable=False),
    sa.Column("renewed", sa.BigInteger, nullable=False),
    sa.Column("stopping", sa.Boolean, nullable=False),
)
PARKED_KEYS: Final = sa.Table(
    "shardline_parked_keys",
    SCHEMA,
    sa.Column("app_name", _ID, primary_key=True),
    sa.Column("stream_name", _ID, primary_key=True),
    sa.Column("shard_id", _ID, primary_key=True),
    sa.Column("key", _ID, primary_key=True),
    sa.Column("letter_id", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
)
VERSIONS: Final = sa.Table(
    "shardline_version", SCHEMA, sa.Column("version", sa.Integer, primary_key=True)
)
TABLES: Final[dict[type, sa.Table]] = {
    LeaseRow: LEASES,
    Heartbeat: HEARTBEATS,
    Header: HEADERS,
    Run: RUNS,
    ParkedKey: PARKED_KEYS,
}


def create_missing(connection: sa.Connection) -> bool:
    """Create the tables and columns that are missing; return true if there were no tables."""
    new = not sa.inspect(connection).has_table(VERSIONS.name)
    SCHEMA.create_all(connection)
    for table, column in () if new else list(_missing_columns(connection)):
        kind = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {kind}")
    return new


def _missing_columns(connection: sa.Connection) -> Iterator[tuple[sa.Table, sa.Column[Any]]]:
    inspector = sa.inspect(connection)
    for table in SCHEMA.tables.values():
        found = {column["name"] for column in inspector.get_columns(table.name)}
        yield from ((table, column) for column in table.columns if column.name not in found)


def columns_of(row: AnyRow) -> dict[str, Any]:
    """Return a row as columns."""
    return {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in values_of(row).items()
    }
