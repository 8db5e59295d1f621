"""Lease tables that an earlier release made are extended in place, and read as they are."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import boto3
import psycopg
import pytest

from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow, taken
from shardline.core.leasing.runs import Run
from shardline.core.positions import TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.leases.address import open_table
from shardline.services.access import Access

if TYPE_CHECKING:
    from pathlib import Path

    from shardline.leases.port import LeaseTable
    from tests.servers import Database, Endpoint

CREATED = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)
TEXT_ID = 'TEXT COLLATE "C"'

FIRST_LAYOUT = """
CREATE TABLE shardline_leases (
    app_name {id} NOT NULL, stream_name {id} NOT NULL, shard_id {id} NOT NULL,
    stream_created_at TEXT NOT NULL, parents TEXT NOT NULL, lease_owner TEXT,
    lease_count BIGINT NOT NULL, epoch BIGINT NOT NULL, checkpoint TEXT NOT NULL, as_of TEXT,
    completed BOOLEAN NOT NULL, given_to TEXT, gap TEXT NOT NULL, unlisted_since TEXT,
    PRIMARY KEY (app_name, stream_name, shard_id));
CREATE TABLE shardline_heartbeats (
    app_name {id} NOT NULL, stream_name {id} NOT NULL, worker {id} NOT NULL, count BIGINT NOT NULL,
    held BIGINT NOT NULL, capacity BIGINT, leaving BOOLEAN NOT NULL, asks TEXT NOT NULL,
    PRIMARY KEY (app_name, stream_name, worker));
CREATE TABLE shardline_headers (
    app_name {id} NOT NULL, stream_name {id} NOT NULL, stream_created_at TEXT NOT NULL,
    start TEXT NOT NULL, settled BOOLEAN NOT NULL, moves BIGINT NOT NULL,
    PRIMARY KEY (app_name, stream_name));
CREATE TABLE shardline_version (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO shardline_version VALUES (1);
INSERT INTO shardline_leases VALUES (
    'app', 'orders', 's0', '{created}', '["p"]', 'w/1', 4, 2000001, '{{"after":"7"}}',
    '{created}', {no}, NULL, '', NULL);
INSERT INTO shardline_heartbeats VALUES ('app', 'orders', 'w/1', 9, 1, NULL, {no}, '[]');
INSERT INTO shardline_headers VALUES (
    'app', 'orders', '{created}', '"trim_horizon"', {yes}, 3);
"""

ROW = LeaseRow(
    "app", "orders", "s0", CREATED, ("p",), "w/1", 4, 2_000_001,
    After(SequenceNumber("7")), CREATED,
)  # fmt: skip


def test_a_sqlite_file_of_the_first_layout_is_extended_in_place(tmp_path: Path) -> None:
    path = tmp_path / "leases.db"
    with sqlite3.connect(path) as old:
        old.executescript(FIRST_LAYOUT.format(id="TEXT", created=CREATED.isoformat(), yes=1, no=0))
    old.close()
    _require_extended(open_table(f"sqlite:///{path}"))


def test_a_postgresql_table_of_the_first_layout_is_extended_in_place(postgresql: Database) -> None:
    name = f"old_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgresql.dsn, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    dsn = postgresql.dsn.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(dsn, autocommit=True) as old:
        layout = FIRST_LAYOUT.format(
            id=TEXT_ID, created=CREATED.isoformat(), yes="TRUE", no="FALSE"
        )
        old.execute(layout)
    _require_extended(open_table(dsn))


def test_dynamodb_items_of_the_first_layout_have_defaults(dynamodb_local: Endpoint) -> None:
    name = f"leases-{uuid.uuid4().hex[:8]}"
    table = open_table(f"dynamodb://{name}", Access(endpoint_url=dynamodb_local.endpoint_url))
    assert table.prepare() is True
    client = boto3.client(
        "dynamodb", endpoint_url=dynamodb_local.endpoint_url, region_name="us-east-1",
        aws_access_key_id="x", aws_secret_access_key="x",  # noqa: S106 - of nobody
    )  # fmt: skip
    texts = {
        "app_and_stream": '["app", "orders"]', "item": "shard s0", "app_name": "app",
        "stream_name": "orders", "shard_id": "s0", "stream_created_at": CREATED.isoformat(),
        "lease_owner": "w/1", "checkpoint": '{"after":"7"}', "as_of": CREATED.isoformat(),
        "gap": "",
    }  # fmt: skip
    client.put_item(
        TableName=name,
        Item={
            **{key: {"S": value} for key, value in texts.items()},
            "lease_count": {"N": "4"}, "epoch": {"N": "2000001"}, "completed": {"BOOL": False},
            "given_to": {"NULL": True}, "unlisted_since": {"NULL": True},
            "parents": {"L": [{"S": "p"}]},
        },
    )  # fmt: skip
    assert table.read_rows("app", "orders", ["s0"]) == {"s0": ROW}
    _require_writable(table)


def _require_extended(table: LeaseTable) -> None:
    try:
        assert table.prepare() is False, "it is not new"
        assert table.prepare() is False
        assert table.read_rows("app", "orders", ["s0"]) == {"s0": ROW}
        assert table.read_heartbeats("app", "orders") == (
            Heartbeat("app", "orders", "w/1", count=9, held=1),
        )
        assert table.read_header("app", "orders") == Header(
            "app", "orders", CREATED, TRIM_HORIZON, settled=True, moves=3
        )
        _require_writable(table)
    finally:
        table.close()


def _require_writable(table: LeaseTable) -> None:
    new = taken(ROW, "w/2")
    assert new.starts == 1
    table.swap_row(new, ROW)
    assert table.read_rows("app", "orders", ["s0"]) == {"s0": new}
    run = Run("app", "run-1", CREATED, 3)
    assert table.write_run(run) == run


@pytest.mark.req("K-17")
def test_a_new_sqlite_file_is_said_to_be_new(tmp_path: Path) -> None:
    table = open_table(f"sqlite:///{tmp_path}/new.db")
    assert table.prepare() is True
    assert table.prepare() is False
    table.close()
