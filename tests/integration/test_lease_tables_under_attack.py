"""Each row of a real lease table is a register, whatever happens to clients and connections.

A few operations for each table; `make attack` makes 100,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.stores.attack import Report, attack

if TYPE_CHECKING:
    from tests.servers import Database, Endpoint

OPERATIONS = 250


def test_sqlite_shows_no_anomaly() -> None:
    _judge(attack("sqlite", OPERATIONS, seed=1))


def test_postgresql_shows_no_anomaly(postgresql: Database) -> None:
    _judge(attack("postgresql", OPERATIONS, seed=2, url=postgresql.dsn))


def test_dynamodb_shows_no_anomaly(dynamodb_local: Endpoint) -> None:
    _judge(attack("dynamodb", OPERATIONS, seed=3, url=dynamodb_local.endpoint_url))


def _judge(report: Report) -> None:
    assert report.operations >= OPERATIONS
    assert report.anomalies == ()
