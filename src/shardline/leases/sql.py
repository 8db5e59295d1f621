"""A lease table in SQLite or PostgreSQL, every write one conditional statement.

SQLite serves the processes of one machine. Its writers wait for each other at most
`wait_seconds`; a file on a network drive is not safe, because locks are not.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.errors import ConfigurationError
from shardline.leases.port import Conflict, RowPage, TableUnavailable
from shardline.leases.sql_engine import make_engine, shown_address, without_secrets
from shardline.leases.sql_schema import (
    HEADERS,
    HEARTBEATS,
    LEASES,
    PARKED_KEYS,
    RUNS,
    TABLES,
    VERSION,
    VERSIONS,
    columns_of,
    create_missing,
)
from shardline.leases.stored_rows import AnyRow, Row, row_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Condition = list[sa.ColumnElement[bool]]

_LEASE_KEY: Final = ("app_name", "stream_name", "shard_id")
_CREATION_LOCK: Final = 0x5348_4C4E  # "SHLN": ours among the advisory locks of a database


class SqlLeaseTable:
    """A `LeaseTable` in SQL, by SQLAlchemy's address: `sqlite:///file`, `postgresql://…`."""

    def __init__(self, url: str, wait_seconds: float = 5) -> None:
        self._engine = make_engine(url, wait_seconds)
        self._reader = self._engine.execution_options(reads=True)

    def __repr__(self) -> str:
        return f"SqlLeaseTable({self.address!r})"

    @property
    def address(self) -> str:
        return shown_address(self._engine.url)

    def prepare(self) -> bool:
        """Create or extend the tables, and refuse those of another version."""
        with self._transaction() as connection:
            if connection.dialect.name == "postgresql":  # two workers may start at once
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
            new = create_missing(connection)
            found = connection.scalar(sa.select(VERSIONS.c.version))
            if found is None:
                connection.execute(sa.insert(VERSIONS).values(version=VERSION))
        if found not in {None, VERSION}:
            raise ConfigurationError(
                f"the lease table {self.address} has version {found}, and this shardline "
                f"works with version {VERSION}: use the release that made it, or another table"
            )
        return new

    # --- headers ----------------------------------------------------------------------------

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        return self._read_one(Header, _at(HEADERS, app_name=app_name, stream_name=stream_name))

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        self._swap(header, _same_stream(replaces) if replaces else None)

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        new = {"moves": HEADERS.c.moves + 1, **({"settled": True} if settled else {})}
        with self._transaction() as connection:
            bumped = _update(connection, Header, _same_stream(header), new)
            if bumped is None:
                raise Conflict(_stored(connection, header))
            return bumped

    # --- lease rows -------------------------------------------------------------------------

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        query = (
            sa.select(LEASES)
            .where(*_at(LEASES, app_name=app_name, stream_name=stream_name))
            .order_by(LEASES.c.shard_id)
            .limit(limit + 1)
        )
        if after is not None:
            query = query.where(LEASES.c.shard_id > after)
        with self._transaction(self._reader) as connection:
            found = [row_of(LeaseRow, stored) for stored in connection.execute(query).mappings()]
        page = tuple(found[:limit])
        return RowPage(page, page[-1].shard_id if len(found) > limit else None)

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        condition = _at(LEASES, app_name=app_name, stream_name=stream_name)
        condition.append(LEASES.c.shard_id.in_(list(shard_ids)))
        return {row.shard_id: row for row in self._read(LeaseRow, condition)}

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        self._swap(new, _still(expected) if expected else None)

    def delete_row(self, expected: LeaseRow) -> None:
        self._delete(expected, _still(expected))

    # --- heartbeats -------------------------------------------------------------------------

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        return self._read(Heartbeat, _at(HEARTBEATS, app_name=app_name, stream_name=stream_name))

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        return self._read_one(Heartbeat, _key(Heartbeat(app_name, stream_name, worker)))

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        self._swap(new, _unmoved(expected) if expected else None)

    def delete_heartbeat(self, expected: Heartbeat) -> None:
        self._delete(expected, _unmoved(expected))

    # --- runs -------------------------------------------------------------------------------

    def write_run(self, run: Run) -> Run:
        new = {"renewed": RUNS.c.renewed + 1, "workers": run.workers}
        with self._transaction() as connection:
            renewed = _update(connection, Run, _key(run), new)
            if renewed is not None:
                return renewed
            if _write(connection, run, None):
                return run
            raise TableUnavailable(f"the lease table {self.address} changes at this moment")

    def read_run(self, app_name: str, run_id: str) -> Run | None:
        return self._read_one(Run, _at(RUNS, app_name=app_name, run_id=run_id))

    def read_runs(self, app_name: str) -> tuple[Run, ...]:
        return self._read(Run, _at(RUNS, app_name=app_name))

    def stop_run(self, app_name: str, run_id: str) -> Run:
        condition = _at(RUNS, app_name=app_name, run_id=run_id)
        with self._transaction() as connection:
            stopped = _update(connection, Run, condition, {"stopping": True})
        if stopped is None:
            raise Conflict(None)
        return stopped

    def delete_run(self, run: Run) -> None:
        with self._transaction() as connection:
            connection.execute(sa.delete(RUNS).where(*_key(run)))

    # --- parked keys ------------------------------------------------------------------------

    def park_key(self, parked: ParkedKey, owner: str) -> None:
        with self._transaction() as connection:
            _require_lease(connection, parked, owner)
            connection.execute(sa.delete(PARKED_KEYS).where(*_key(parked)))
            connection.execute(sa.insert(PARKED_KEYS).values(columns_of(parked)))

    def read_parked_keys(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> tuple[ParkedKey, ...]:
        condition = _at(PARKED_KEYS, app_name=app_name, stream_name=stream_name)
        condition.append(PARKED_KEYS.c.shard_id.in_(list(shard_ids)))
        return self._read(ParkedKey, condition)

    def unpark_key(self, parked: ParkedKey, owner: str) -> None:
        same = _same(PARKED_KEYS, parked, "app_name", "stream_name", "key", "letter_id")
        with self._transaction() as connection:
            _require_lease(connection, parked, owner)
            connection.execute(
                sa.delete(PARKED_KEYS).where(*same, PARKED_KEYS.c.epoch <= parked.epoch)
            )

    def close(self) -> None:
        self._engine.dispose()

    # --- statements -------------------------------------------------------------------------

    def _read(self, kind: type[Row], condition: Condition) -> tuple[Row, ...]:
        query = sa.select(TABLES[kind]).where(*condition)
        with self._transaction(self._reader) as connection:
            return tuple(row_of(kind, stored) for stored in connection.execute(query).mappings())

    def _read_one(self, kind: type[Row], condition: Condition) -> Row | None:
        return next(iter(self._read(kind, condition)), None)

    def _swap(self, new: AnyRow, condition: Condition | None) -> None:
        with self._transaction() as connection:
            if not _write(connection, new, condition):
                raise Conflict(_stored(connection, new))

    def _delete(self, expected: AnyRow, condition: Condition) -> None:
        with self._transaction() as connection:
            table = TABLES[type(expected)]
            if connection.execute(sa.delete(table).where(*condition)).rowcount == 0:
                raise Conflict(_stored(connection, expected))

    @contextmanager
    def _transaction(self, engine: sa.Engine | None = None) -> Iterator[sa.Connection]:
        try:
            with (engine or self._engine).begin() as connection:
                yield connection
        except (DBAPIError, PoolTimeout) as error:
            lines = str(getattr(error, "orig", error)).strip().splitlines()
            reason = without_secrets(" ".join(lines[:1]), self._engine.url)
            if reason == "unable to open database file":
                reason += " (does its folder exist, and may you write there?)"
            # The driver's own error is not chained: it may hold the address with its password.
            raise TableUnavailable(
                f"the lease table {self.address} gave no answer: {reason}"
            ) from None


def _write(connection: sa.Connection, row: AnyRow, condition: Condition | None) -> bool:
    """Insert where nothing may be there, or update where the condition holds."""
    table, values = TABLES[type(row)], columns_of(row)
    if condition is not None:
        return connection.execute(sa.update(table).where(*condition).values(values)).rowcount == 1
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(table).values(values))
    except IntegrityError:
        return False
    return True


def _update(
    connection: sa.Connection, kind: type[Row], condition: Condition, new: dict[str, Any]
) -> Row | None:
    table = TABLES[kind]
    statement = sa.update(table).where(*condition).values(new).returning(*table.c)
    stored = connection.execute(statement).mappings().one_or_none()
    return row_of(kind, stored) if stored else None


def _stored(connection: sa.Connection, row: Row) -> Row | None:
    """Return what is stored under the key of a row."""
    query = sa.select(TABLES[type(row)]).where(*_key(row))
    stored = connection.execute(query).mappings().one_or_none()
    return row_of(type(row), stored) if stored else None


def _at(table: sa.Table, **values: str) -> Condition:
    return [table.c[name] == value for name, value in values.items()]


def _key(row: AnyRow) -> Condition:
    table = TABLES[type(row)]
    return _same(table, row, *(column.name for column in table.primary_key))


def _same(table: sa.Table, value: object, *names: str) -> Condition:
    return [table.c[name] == getattr(value, name) for name in names]


def _still(row: LeaseRow) -> Condition:
    return [
        *_same(LEASES, row, *_LEASE_KEY, "epoch", "lease_count"),
        LEASES.c.lease_owner.is_not_distinct_from(row.lease_owner),
    ]


def _same_stream(header: Header) -> Condition:
    return [
        *_same(HEADERS, header, "app_name", "stream_name"),
        HEADERS.c.stream_created_at == header.stream_created_at.isoformat(),
    ]


def _unmoved(beat: Heartbeat) -> Condition:
    return _same(HEARTBEATS, beat, "app_name", "stream_name", "worker", "count")


def _require_lease(connection: sa.Connection, parked: ParkedKey, owner: str) -> None:
    """Raise `Conflict` unless the lease is the owner's; it stays so until the transaction ends."""
    same = _same(LEASES, parked, *_LEASE_KEY, "epoch")
    query = sa.select(LEASES.c.shard_id).where(*same, LEASES.c.lease_owner == owner)
    if connection.scalar(query.with_for_update()) is None:
        lease = sa.select(LEASES).where(*_same(LEASES, parked, *_LEASE_KEY))
        stored = connection.execute(lease).mappings().one_or_none()
        raise Conflict(row_of(LeaseRow, stored) if stored else None)
