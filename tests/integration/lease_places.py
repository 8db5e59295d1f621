"""The lease tables that workers are tested with, each of which can go away for a while."""

from __future__ import annotations

import os
import sqlite3
import uuid
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.servers.relay import Relay, relay_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import Database, Endpoint

TABLES: Final = ("sqlite", "postgresql", "dynamodb")
EVERY_TABLE: Final = os.environ.get("SHARDLINE_EVERY_TABLE") == "1"
"""Set by `make test-tables`: every test of the workers with every table."""


@dataclass(frozen=True)
class LeasePlace:
    """Where the leases of one test are, and how to make that unreachable."""

    address: str
    away: Callable[[], AbstractContextManager[None]]
    """While in this context, no write is answered."""
    endpoint_url: str | None = None
    locked: Callable[[], bool] = lambda: False
    """Return true if some process holds a lock on the whole table."""
    relay: Relay | None = None
    """What stands between the workers and the server, where there is one."""


@contextmanager
def lease_place(table: str, folder: Path, server_of: Callable[[str], Any]) -> Iterator[LeasePlace]:
    """Provide one of `TABLES`, empty. `server_of` returns a running server by its name."""
    match table:
        case "sqlite":
            yield sqlite_place(folder / "leases.db")
        case "postgresql":
            database: Database = server_of("postgresql")
            with _postgresql(database.dsn) as place:
                yield place
        case "dynamodb":
            server: Endpoint = server_of("dynamodb_local")
            with relay_to(urlsplit(server.endpoint_url).port or 0) as relay:
                name = f"dynamodb://leases-{uuid.uuid4().hex[:8]}"
                yield LeasePlace(name, relay.silent, f"http://127.0.0.1:{relay.port}", relay=relay)


def on_tables(*tables: str) -> pytest.MarkDecorator:
    """Run a test with these lease tables, or with every one if that is wanted."""
    return pytest.mark.parametrize("table", TABLES if EVERY_TABLE else tables)


def sqlite_place(path: Path) -> LeasePlace:
    """Provide a table in a file, which goes away by being locked."""

    @contextmanager
    def away() -> Iterator[None]:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def locked() -> bool:
        with closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            return False

    return LeasePlace(f"sqlite:///{path}", away, locked=locked)


@contextmanager
def _postgresql(dsn: str) -> Iterator[LeasePlace]:
    """Make a database of its own in the server, and a relay to it."""
    name = f"leases_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    parts = urlsplit(dsn)
    with relay_to(parts.port or 0) as relay:
        address = f"postgresql://{parts.username}@127.0.0.1:{relay.port}/{name}"
        yield LeasePlace(address, relay.silent, relay=relay)
