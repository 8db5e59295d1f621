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

from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.errors import ConfigurationError
from shardline.leases.port import Conflict, RowPage, TableUnavailable
from shardline.leases.sql_engine import make_engine, shown_address, without_secrets
from shardline.leases.sql_schema import (
    HEADERS,
    HEARTBEATS,
    LEASES,
    PARKED_KEYS,
    RUNS,
    VERSION,
    VERSIONS,
    create_missing,
    header_values,
    heartbeat_values,
    plain_values,
    row_values,
    run_values,
    to_header,
    to_heartbeat,
    to_parked_key,
    to_row,
    to_run,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from shardline.core.leasing.parked_keys import ParkedKey
    from shardline.core.leasing.runs import Run

Condition = list[sa.ColumnElement[bool]]

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
        with self._transaction(self._reader) as connection:
            return _stored_header(connection, app_name, stream_name)

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        condition = _same_stream(replaces) if replaces else None
        with self._transaction() as connection:
            if not _write(connection, HEADERS, header_values(header), condition):
                raise Conflict(_stored_header(connection, header.app_name, header.stream_name))

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        new = {"moves": HEADERS.c.moves + 1, **({"settled": True} if settled else {})}
        statement = (
            sa.update(HEADERS).where(*_same_stream(header)).values(new).returning(*HEADERS.c)
        )
        with self._transaction() as connection:
            stored = connection.execute(statement).mappings().one_or_none()
            if stored is None:
                raise Conflict(_stored_header(connection, header.app_name, header.stream_name))
            return to_header(stored)

    # --- lease rows -------------------------------------------------------------------------

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        query = (
            sa.select(LEASES)
            .where(LEASES.c.app_name == app_name, LEASES.c.stream_name == stream_name)
            .order_by(LEASES.c.shard_id)
            .limit(limit + 1)
        )
        if after is not None:
            query = query.where(LEASES.c.shard_id > after)
        with self._transaction(self._reader) as connection:
            found = [to_row(stored) for stored in connection.execute(query).mappings()]
        page = tuple(found[:limit])
        return RowPage(page, page[-1].shard_id if len(found) > limit else None)

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        query = sa.select(LEASES).where(
            LEASES.c.app_name == app_name,
            LEASES.c.stream_name == stream_name,
            LEASES.c.shard_id.in_(list(shard_ids)),
        )
        with self._transaction(self._reader) as connection:
            return {s["shard_id"]: to_row(s) for s in connection.execute(query).mappings()}

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        with self._transaction() as connection:
            condition = _still(expected) if expected else None
            if not _write(connection, LEASES, row_values(new), condition):
                raise Conflict(_stored_row(connection, new))

    def delete_row(self, expected: LeaseRow) -> None:
        with self._transaction() as connection:
            gone = connection.execute(sa.delete(LEASES).where(*_still(expected)))
            if gone.rowcount == 0:
                raise Conflict(_stored_row(connection, expected))

    # --- heartbeats -------------------------------------------------------------------------

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        query = sa.select(HEARTBEATS).where(
            HEARTBEATS.c.app_name == app_name, HEARTBEATS.c.stream_name == stream_name
        )
        with self._transaction(self._reader) as connection:
            return tuple(map(to_heartbeat, connection.execute(query).mappings()))

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        with self._transaction(self._reader) as connection:
            return _stored_heartbeat(connection, Heartbeat(app_name, stream_name, worker))

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        with self._transaction() as connection:
            condition = _unmoved(expected) if expected else None
            if not _write(connection, HEARTBEATS, heartbeat_values(new), condition):
                raise Conflict(_stored_heartbeat(connection, new))

    def delete_heartbeat(self, expected: Heartbeat) -> None:
        with self._transaction() as connection:
            gone = connection.execute(sa.delete(HEARTBEATS).where(*_unmoved(expected)))
            if gone.rowcount == 0:
                raise Conflict(_stored_heartbeat(connection, expected))

    # --- runs -------------------------------------------------------------------------------

    def write_run(self, run: Run) -> Run:
        new = {"renewed": RUNS.c.renewed + 1, "workers": run.workers}
        with self._transaction() as connection:
            renewed = _update_run(connection, run.app_name, run.run_id, new)
            if renewed is not None:
                return renewed
            if _write(connection, RUNS, run_values(run), None):
                return run
            raise TableUnavailable(f"the lease table {self.address} changes at this moment")

    def read_run(self, app_name: str, run_id: str) -> Run | None:
        query = sa.select(RUNS).where(RUNS.c.app_name == app_name, RUNS.c.run_id == run_id)
        with self._transaction(self._reader) as connection:
            stored = connection.execute(query).mappings().one_or_none()
            return to_run(stored) if stored else None

    def read_runs(self, app_name: str) -> tuple[Run, ...]:
        query = sa.select(RUNS).where(RUNS.c.app_name == app_name)
        with self._transaction(self._reader) as connection:
            return tuple(map(to_run, connection.execute(query).mappings()))

    def stop_run(self, app_name: str, run_id: str) -> Run:
        with self._transaction() as connection:
            stopped = _update_run(connection, app_name, run_id, {"stopping": True})
        if stopped is None:
            raise Conflict(None)
        return stopped

    def delete_run(self, run: Run) -> None:
        with self._transaction() as connection:
            connection.execute(sa.delete(RUNS).where(*_same(RUNS, run, "app_name", "run_id")))

    # --- parked keys ------------------------------------------------------------------------

    def park_key(self, parked: ParkedKey, owner: str) -> None:
        key = _same(PARKED_KEYS, parked, "app_name", "stream_name", "shard_id", "key")
        with self._transaction() as connection:
            _require_lease(connection, parked, owner)
            connection.execute(sa.delete(PARKED_KEYS).where(*key))
            connection.execute(sa.insert(PARKED_KEYS).values(plain_values(parked)))

    def read_parked_keys(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> tuple[ParkedKey, ...]:
        query = sa.select(PARKED_KEYS).where(
            PARKED_KEYS.c.app_name == app_name,
            PARKED_KEYS.c.stream_name == stream_name,
            PARKED_KEYS.c.shard_id.in_(list(shard_ids)),
        )
        with self._transaction(self._reader) as connection:
            return tuple(map(to_parked_key, connection.execute(query).mappings()))

    def unpark_key(self, parked: ParkedKey, owner: str) -> None:
        same = _same(PARKED_KEYS, parked, "app_name", "stream_name", "key", "letter_id")
        with self._transaction() as connection:
            _require_lease(connection, parked, owner)
            connection.execute(
                sa.delete(PARKED_KEYS).where(*same, PARKED_KEYS.c.epoch <= parked.epoch)
            )

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _transaction(self, engine: sa.Engine | None = None) -> Iterator[sa.Connection]:
        try:
            with (engine or self._engine).begin() as connection:
                yield connection
        except (DBAPIError, PoolTimeout) as error:
            lines = str(getattr(error, "orig", error)).strip().splitlines()
            reason = without_secrets(" ".join(lines[:1]), self._engine.url)
            # The driver's own error is not chained: it may hold the address with its password.
            raise TableUnavailable(
                f"the lease table {self.address} gave no answer: {reason}"
            ) from None


def _write(
    connection: sa.Connection, table: sa.Table, values: dict[str, Any], condition: Condition | None
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


def _same(table: sa.Table, value: object, *names: str) -> Condition:
    return [table.c[name] == getattr(value, name) for name in names]


def _still(row: LeaseRow) -> Condition:
    return [
        *_same(LEASES, row, "app_name", "stream_name", "shard_id", "epoch", "lease_count"),
        LEASES.c.lease_owner.is_not_distinct_from(row.lease_owner),
    ]


def _same_stream(header: Header) -> Condition:
    return [
        *_same(HEADERS, header, "app_name", "stream_name"),
        HEADERS.c.stream_created_at == header.stream_created_at.isoformat(),
    ]


def _unmoved(beat: Heartbeat) -> Condition:
    return _same(HEARTBEATS, beat, "app_name", "stream_name", "worker", "count")


def _update_run(
    connection: sa.Connection, app_name: str, run_id: str, new: dict[str, Any]
) -> Run | None:
    statement = (
        sa.update(RUNS)
        .where(RUNS.c.app_name == app_name, RUNS.c.run_id == run_id)
        .values(new)
        .returning(*RUNS.c)
    )
    stored = connection.execute(statement).mappings().one_or_none()
    return to_run(stored) if stored else None


def _require_lease(connection: sa.Connection, parked: ParkedKey, owner: str) -> None:
    """Raise `Conflict` unless the lease is the owner's; it stays so until the transaction ends."""
    same = _same(LEASES, parked, "app_name", "stream_name", "shard_id", "epoch")
    query = sa.select(LEASES.c.shard_id).where(*same, LEASES.c.lease_owner == owner)
    if connection.scalar(query.with_for_update()) is None:
        key = _same(LEASES, parked, "app_name", "stream_name", "shard_id")
        stored = connection.execute(sa.select(LEASES).where(*key)).mappings().one_or_none()
        raise Conflict(to_row(stored) if stored else None)


def _stored_row(connection: sa.Connection, key: LeaseRow) -> LeaseRow | None:
    query = sa.select(LEASES).where(*_same(LEASES, key, "app_name", "stream_name", "shard_id"))
    stored = connection.execute(query).mappings().one_or_none()
    return to_row(stored) if stored else None


def _stored_heartbeat(connection: sa.Connection, key: Heartbeat) -> Heartbeat | None:
    condition = _same(HEARTBEATS, key, "app_name", "stream_name", "worker")
    stored = connection.execute(sa.select(HEARTBEATS).where(*condition)).mappings().one_or_none()
    return to_heartbeat(stored) if stored else None


def _stored_header(connection: sa.Connection, app_name: str, stream_name: str) -> Header | None:
    query = sa.select(HEADERS).where(
        HEADERS.c.app_name == app_name, HEADERS.c.stream_name == stream_name
    )
    stored = connection.execute(query).mappings().one_or_none()
    return to_header(stored) if stored else None
