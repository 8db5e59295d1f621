"""A lease table in SQLite or PostgreSQL: three tables, every write one conditional statement.

SQLite serves the processes of one machine. Its writers wait for each other at most
`wait_seconds`; a file on a network drive is not safe, because locks are not.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.errors import ConfigurationError
from shardline.leases.port import (
    Conflict,
    RowPage,
    TableUnavailable,
    position_from_text,
    position_to_text,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

VERSION: Final = 1
_CREATION_LOCK: Final = 0x5348_4C4E  # "SHLN": ours among the advisory locks of a database

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")  # compares bytes, as SQLite does
_SCHEMA: Final = sa.MetaData()
_LEASES: Final = sa.Table(
    "shardline_leases",
    _SCHEMA,
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
)
_HEARTBEATS: Final = sa.Table(
    "shardline_heartbeats",
    _SCHEMA,
    sa.Column("app_name", _ID, primary_key=True),
    sa.Column("stream_name", _ID, primary_key=True),
    sa.Column("worker", _ID, primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("held", sa.BigInteger, nullable=False),
    sa.Column("capacity", sa.BigInteger),
    sa.Column("leaving", sa.Boolean, nullable=False),
    sa.Column("asks", sa.Text, nullable=False),
)
_HEADERS: Final = sa.Table(
    "shardline_headers",
    _SCHEMA,
    sa.Column("app_name", _ID, primary_key=True),
    sa.Column("stream_name", _ID, primary_key=True),
    sa.Column("stream_created_at", sa.Text, nullable=False),
    sa.Column("start", sa.Text, nullable=False),
    sa.Column("settled", sa.Boolean, nullable=False),
    sa.Column("moves", sa.BigInteger, nullable=False),
)
_VERSIONS: Final = sa.Table(
    "shardline_version", _SCHEMA, sa.Column("version", sa.Integer, primary_key=True)
)


class SqlLeaseTable:
    """Lease rows in a SQL database, by SQLAlchemy's address: `sqlite:///file`, `postgresql://…`."""

    def __init__(self, url: str, wait_seconds: float = 5) -> None:
        self._engine = _make_engine(url, wait_seconds)
        self._reader = self._engine.execution_options(reads=True)

    def prepare(self) -> None:
        """Create the tables that are missing, and refuse those of another version."""
        with self._transaction() as connection:
            if connection.dialect.name == "postgresql":  # two workers may start at once
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
            _SCHEMA.create_all(connection)
            found = connection.scalar(sa.select(_VERSIONS.c.version))
            if found is None:
                connection.execute(sa.insert(_VERSIONS).values(version=VERSION))
        if found not in {None, VERSION}:
            raise ConfigurationError(
                f"the lease table {self._engine.url!r} has version {found}, and this shardline "
                f"works with version {VERSION}: use the release that made it, or another table"
            )

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        """Read a header row."""
        with self._transaction(self._reader) as connection:
            return _stored_header(connection, app_name, stream_name)

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        """Write a header where there is none, or in place of an older stream's."""
        values = _header_values(header)
        condition = _same_stream(replaces) if replaces else None
        with self._transaction() as connection:
            if not _write(connection, _HEADERS, values, condition):
                raise Conflict(_stored_header(connection, header.app_name, header.stream_name))

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        """Add one to the stored `moves`, and return the header after it."""
        new = {"moves": _HEADERS.c.moves + 1, **({"settled": True} if settled else {})}
        statement = (
            sa.update(_HEADERS).where(*_same_stream(header)).values(new).returning(*_HEADERS.c)
        )
        with self._transaction() as connection:
            stored = connection.execute(statement).mappings().one_or_none()
            if stored is None:
                raise Conflict(_stored_header(connection, header.app_name, header.stream_name))
            return _to_header(stored)

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        """Read up to `limit` rows with shard ids above `after`."""
        query = (
            sa.select(_LEASES)
            .where(_LEASES.c.app_name == app_name, _LEASES.c.stream_name == stream_name)
            .order_by(_LEASES.c.shard_id)
            .limit(limit + 1)
        )
        if after is not None:
            query = query.where(_LEASES.c.shard_id > after)
        with self._transaction(self._reader) as connection:
            found = [_to_row(stored) for stored in connection.execute(query).mappings()]
        page = tuple(found[:limit])
        return RowPage(page, page[-1].shard_id if len(found) > limit else None)

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        """Read these rows, as far as they exist."""
        query = sa.select(_LEASES).where(
            _LEASES.c.app_name == app_name,
            _LEASES.c.stream_name == stream_name,
            _LEASES.c.shard_id.in_(list(shard_ids)),
        )
        with self._transaction(self._reader) as connection:
            return {s["shard_id"]: _to_row(s) for s in connection.execute(query).mappings()}

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        """Write a row if the stored one is still the expected one."""
        with self._transaction() as connection:
            condition = _still(expected) if expected else None
            if not _write(connection, _LEASES, _row_values(new), condition):
                raise Conflict(_stored_row(connection, new))

    def delete_row(self, expected: LeaseRow) -> None:
        """Delete a row if it is still the expected one."""
        with self._transaction() as connection:
            gone = connection.execute(sa.delete(_LEASES).where(*_still(expected)))
            if gone.rowcount == 0:
                raise Conflict(_stored_row(connection, expected))

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        """Read all heartbeats of an app on a stream."""
        query = sa.select(_HEARTBEATS).where(
            _HEARTBEATS.c.app_name == app_name, _HEARTBEATS.c.stream_name == stream_name
        )
        with self._transaction(self._reader) as connection:
            return tuple(map(_to_heartbeat, connection.execute(query).mappings()))

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        """Read one worker's heartbeat."""
        with self._transaction(self._reader) as connection:
            return _stored_heartbeat(connection, Heartbeat(app_name, stream_name, worker))

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        """Write a heartbeat if the stored one is still the expected one."""
        with self._transaction() as connection:
            values = _values(new) | {"asks": json.dumps(new.asks)}
            condition = _unmoved(expected) if expected else None
            if not _write(connection, _HEARTBEATS, values, condition):
                raise Conflict(_stored_heartbeat(connection, new))

    def delete_heartbeat(self, expected: Heartbeat) -> None:
        """Delete a heartbeat if it has not moved."""
        with self._transaction() as connection:
            gone = connection.execute(sa.delete(_HEARTBEATS).where(*_unmoved(expected)))
            if gone.rowcount == 0:
                raise Conflict(_stored_heartbeat(connection, expected))

    def close(self) -> None:
        """Let go of connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self, engine: sa.Engine | None = None) -> Iterator[sa.Connection]:
        try:
            with (engine or self._engine).begin() as connection:
                yield connection
        except (DBAPIError, PoolTimeout) as error:
            reason = str(getattr(error, "orig", error)).strip().splitlines()
            raise TableUnavailable(
                f"the lease table {self._engine.url!r} gave no answer: {' '.join(reason[:1])}"
            ) from error


def _write(
    connection: sa.Connection,
    table: sa.Table,
    values: dict[str, Any],
    condition: list[sa.ColumnElement[bool]] | None,
) -> bool:
    """Insert where nothing may be there, or update where the condition holds."""
    if condition is not None:
        return connection.execute(sa.update(table).where(*condition).values(values)).rowcount == 1
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(table).values(values))
    except IntegrityError:
        return False
    return True


def _same(table: sa.Table, value: object, *names: str) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == getattr(value, name) for name in names]


def _still(row: LeaseRow) -> list[sa.ColumnElement[bool]]:
    return [
        *_same(_LEASES, row, "app_name", "stream_name", "shard_id", "epoch", "lease_count"),
        _LEASES.c.lease_owner.is_not_distinct_from(row.lease_owner),
    ]


def _same_stream(header: Header) -> list[sa.ColumnElement[bool]]:
    return [
        *_same(_HEADERS, header, "app_name", "stream_name"),
        _HEADERS.c.stream_created_at == header.stream_created_at.isoformat(),
    ]


def _unmoved(beat: Heartbeat) -> list[sa.ColumnElement[bool]]:
    return _same(_HEARTBEATS, beat, "app_name", "stream_name", "worker", "count")


def _stored_row(connection: sa.Connection, key: LeaseRow) -> LeaseRow | None:
    query = sa.select(_LEASES).where(*_same(_LEASES, key, "app_name", "stream_name", "shard_id"))
    stored = connection.execute(query).mappings().one_or_none()
    return _to_row(stored) if stored else None


def _stored_heartbeat(connection: sa.Connection, key: Heartbeat) -> Heartbeat | None:
    condition = _same(_HEARTBEATS, key, "app_name", "stream_name", "worker")
    stored = connection.execute(sa.select(_HEARTBEATS).where(*condition)).mappings().one_or_none()
    return _to_heartbeat(stored) if stored else None


def _stored_header(connection: sa.Connection, app_name: str, stream_name: str) -> Header | None:
    query = sa.select(_HEADERS).where(
        _HEADERS.c.app_name == app_name, _HEADERS.c.stream_name == stream_name
    )
    stored = connection.execute(query).mappings().one_or_none()
    return _to_header(stored) if stored else None


def _values(value: LeaseRow | Heartbeat | Header) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _row_values(row: LeaseRow) -> dict[str, Any]:
    return _values(row) | {
        "stream_created_at": row.stream_created_at.isoformat(),
        "parents": json.dumps(row.parents),
        "checkpoint": position_to_text(row.checkpoint),
        "as_of": row.as_of and row.as_of.isoformat(),
        "unlisted_since": row.unlisted_since and row.unlisted_since.isoformat(),
    }


def _to_row(stored: sa.RowMapping) -> LeaseRow:
    times = {name: stored[name] for name in ("stream_created_at", "as_of", "unlisted_since")}
    return LeaseRow(
        **(
            dict(stored)
            | {name: text and datetime.fromisoformat(text) for name, text in times.items()}
            | {
                "parents": tuple(json.loads(stored["parents"])),
                "checkpoint": position_from_text(stored["checkpoint"]),
            }
        )
    )


def _to_heartbeat(stored: sa.RowMapping) -> Heartbeat:
    return Heartbeat(**(dict(stored) | {"asks": tuple(json.loads(stored["asks"]))}))


def _header_values(header: Header) -> dict[str, Any]:
    return _values(header) | {
        "stream_created_at": header.stream_created_at.isoformat(),
        "start": position_to_text(header.start),
    }


def _to_header(stored: sa.RowMapping) -> Header:
    return Header(
        **(
            dict(stored)
            | {
                "stream_created_at": datetime.fromisoformat(stored["stream_created_at"]),
                "start": position_from_text(stored["start"]),
            }
        )
    )


def _make_engine(url: str, wait_seconds: float) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        engine = sa.create_engine(parsed, pool_pre_ping=True, pool_timeout=wait_seconds)
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigurationError(
            f"{url!r} is not the address of a lease table: write sqlite:///FILE, "
            "postgresql://USER@HOST/DATABASE or dynamodb://TABLE"
        ) from error
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs a driver: pip install 'shardline[postgresql]'"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite(wait_seconds))
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: sa.Connection) -> None:
    """Begin as what it will be: a reader that becomes a writer may be refused at once.

    Who only reads takes no lock: a process that is frozen while it holds one stops all others.
    """
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _prepare_sqlite(wait_seconds: float) -> Any:
    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA busy_timeout = {int(wait_seconds * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "PRAGMA synchronous = FULL"
        )  # an answered checkpoint survives power loss

    return on_connect
