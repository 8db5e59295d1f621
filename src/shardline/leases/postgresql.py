"""Connections to PostgreSQL with a limit on every wait, whatever the server or the network does.

A server or a proxy that stops while its machine lives still acknowledges what it is sent, so that
no option of TCP and no time-out of the server helps: the client itself counts the time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Generator

    import sqlalchemy as sa


def connection_options(wait_seconds: float) -> dict[str, Any]:
    """Return the options of the driver: for a dead peer, and for what the server waits for."""
    wait_ms = int(wait_seconds * 1000)
    return {
        "connect_timeout": max(2, int(wait_seconds)),
        "tcp_user_timeout": wait_ms,
        "keepalives": 1,
        "keepalives_idle": max(1, int(wait_seconds)),
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "options": f"-c statement_timeout={wait_ms} -c lock_timeout={wait_ms} "
        f"-c idle_in_transaction_session_timeout={4 * wait_ms}",
    }


def limit_waiting(engine: sa.Engine, wait_seconds: float) -> None:
    """End each wait of the engine's connections for the server after `wait_seconds`."""

    class Limited(psycopg.Connection[Any]):
        def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
            try:
                return super().wait(_limited(gen, wait_seconds), *args, **named)
            except _Silent:
                self.pgconn.finish()
                raise psycopg.OperationalError(
                    f"the server did not answer for {wait_seconds:g} s"
                ) from None

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, args: Any, named: Any) -> Any:
        return Limited.connect(*args, **named)


class _Silent(Exception):
    """The server did not answer in time."""


def _limited(gen: Any, wait_seconds: float) -> Generator[Any, Any, Any]:
    """Run a generator of the driver, which it resumes now and then, until the time is up."""
    ends_at = time.monotonic() + wait_seconds
    try:
        wanted = next(gen)
        while True:
            # Older drivers (3.2.7) report "ready" even if nothing came: only the clock counts.
            wanted = gen.send((yield wanted))
            if time.monotonic() >= ends_at:
                raise _Silent
    except StopIteration as stop:
        return stop.value
