"""Connections to SQLite and PostgreSQL: every wait has a limit, and no password is shown."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from shardline.errors import ConfigurationError

_HIDDEN: Final = "***"
_SECRET_OPTIONS: Final = ("password", "passfile", "sslpassword", "sslkey")


def make_engine(url: str, wait_seconds: float) -> sa.Engine:
    """Return an engine whose every call ends within a few times `wait_seconds`."""
    try:
        parsed = sa.make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.drivername == "postgresql+psycopg":
            from shardline.leases.postgresql import connection_options, limit_waiting

            options = connection_options(wait_seconds)
            engine = sa.create_engine(
                parsed, pool_pre_ping=True, pool_timeout=wait_seconds, connect_args=options
            )
            limit_waiting(engine, wait_seconds)
        else:
            engine = sa.create_engine(parsed, pool_pre_ping=True, pool_timeout=wait_seconds)
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ConfigurationError(
            "that is not the address of a lease table: write sqlite:///FILE, "
            "postgresql://USER@HOST/DATABASE or dynamodb://TABLE"
        ) from None
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs a driver: pip install 'shardline[postgresql]'"
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "do_connect", _create_private)
        event.listen(engine, "connect", _prepare_sqlite(wait_seconds))
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def shown_address(url: sa.URL) -> str:
    """Return an address for people: without a password, and without options that may hold one."""
    shown = url.set(query={}).render_as_string(hide_password=True)
    return shown.replace("postgresql+psycopg", "postgresql")


def without_secrets(text: str, url: sa.URL) -> str:
    """Return a driver's message without any password of the address."""
    secrets = {str(url.password or "")}
    for name, value in url.query.items():
        if name.lower() in _SECRET_OPTIONS:
            secrets.update([value] if isinstance(value, str) else value)
    for secret in sorted(secrets, key=len, reverse=True):
        for form in {secret, unquote(secret), quote(secret, safe=""), quote_plus(secret)} - {""}:
            text = text.replace(form, _HIDDEN)
    return text


def _begin_sqlite(connection: sa.Connection) -> None:
    """Begin as a reader or as a writer: a reader that becomes a writer may be refused at once.

    A reader takes no lock: a process that is frozen while it holds one stops all others.
    """
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _create_private(_dialect: object, _record: object, arguments: list[Any], _: object) -> None:
    """Create the file of a table for its owner only; one that exists keeps its mode.

    SQLite gives the files beside it the same mode. Where this fails, SQLite says why.
    """
    path = str(arguments[0])
    if path != ":memory:" and not path.startswith("file:"):
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _prepare_sqlite(wait_seconds: float) -> Any:
    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA busy_timeout = {int(wait_seconds * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        # An answered checkpoint survives power loss.
        connection.execute("PRAGMA synchronous = FULL")

    return on_connect
