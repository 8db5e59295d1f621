"""The SQL tables of lease rows, how each row is kept in them, and how older ones are extended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.leases.port import position_from_text, position_to_text
from shardline.leases.stored_rows import checked, damage_named

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


# --- rows as values, and back -------------------------------------------------------------------


def row_values(row: LeaseRow) -> dict[str, Any]:
    """Return a lease row as columns."""
    return plain_values(row) | {
        "stream_created_at": row.stream_created_at.isoformat(),
        "parents": json.dumps(row.parents),
        "checkpoint": position_to_text(row.checkpoint),
        "as_of": row.as_of and row.as_of.isoformat(),
        "unlisted_since": row.unlisted_since and row.unlisted_since.isoformat(),
    }


@damage_named("lease row")
def to_row(stored: sa.RowMapping) -> LeaseRow:
    """Return a lease row from its columns."""
    times = {name: stored[name] for name in ("stream_created_at", "as_of", "unlisted_since")}
    values = (
        dict(stored)
        | {name: text and datetime.fromisoformat(text) for name, text in times.items()}
        | {
            "parents": tuple(json.loads(stored["parents"])),
            "checkpoint": position_from_text(stored["checkpoint"]),
        }
    )
    return checked(LeaseRow(**values))


def heartbeat_values(beat: Heartbeat) -> dict[str, Any]:
    """Return a heartbeat as columns."""
    return plain_values(beat) | {"asks": json.dumps(beat.asks)}


@damage_named("heartbeat")
def to_heartbeat(stored: sa.RowMapping) -> Heartbeat:
    """Return a heartbeat from its columns."""
    return checked(Heartbeat(**(dict(stored) | {"asks": tuple(json.loads(stored["asks"]))})))


def header_values(header: Header) -> dict[str, Any]:
    """Return a header row as columns."""
    return plain_values(header) | {
        "stream_created_at": header.stream_created_at.isoformat(),
        "start": position_to_text(header.start),
        "began_at": header.began_at and header.began_at.isoformat(),
    }


@damage_named("header row")
def to_header(stored: sa.RowMapping) -> Header:
    """Return a header row from its columns."""
    values = dict(stored) | {
        "stream_created_at": datetime.fromisoformat(stored["stream_created_at"]),
        "start": position_from_text(stored["start"]),
        "began_at": stored["began_at"] and datetime.fromisoformat(stored["began_at"]),
    }
    return checked(Header(**values))


def run_values(run: Run) -> dict[str, Any]:
    """Return the row of a run as columns."""
    return plain_values(run) | {"created_at": run.created_at.isoformat()}


@damage_named("row of a run")
def to_run(stored: sa.RowMapping) -> Run:
    """Return the row of a run from its columns."""
    created_at = datetime.fromisoformat(stored["created_at"])
    return checked(Run(**(dict(stored) | {"created_at": created_at})))


@damage_named("parked key")
def to_parked_key(stored: sa.RowMapping) -> ParkedKey:
    """Return a parked key from its columns."""
    return checked(ParkedKey(**stored))


def plain_values(value: LeaseRow | Heartbeat | Header | Run | ParkedKey) -> dict[str, Any]:
    """Return the fields of a row by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}
