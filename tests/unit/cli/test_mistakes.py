"""The common mistakes, as a table: each gives one helpful line and a non-zero exit code."""

from __future__ import annotations

import socket
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from shardline.cli import app
from shardline.core.leasing.rows import LeaseRow, halted
from shardline.leases.address import open_table
from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USAGE, FAILED, SERVICE = 2, 1, 3
LEASED = "--app billing --lease-table {table}"

# What was typed, the exit code, and what the one line must say.
MISTAKES: list[tuple[str, int, str]] = [
    # a command or an option that there is not
    ("shard kinesis://orders", USAGE, "No such command 'shard'. Did you mean 'shards'"),
    ("dashbord", USAGE, "Did you mean 'dashboard'? See"),
    ("shards kinesis://orders --jsno", USAGE, "--json"),
    ("shards", USAGE, "Missing argument 'STREAM'"),
    ("dashboard", USAGE, "Missing option '--stream'"),
    ("tail kinesis://orders --format xml", USAGE, "': 'xml' is not one of 'pretty', 'json', 'raw'"),
    ("tail kinesis://orders --max 0", USAGE, "--max': it must be greater"),
    ("tail kinesis://orders --max many", USAGE, "--max': write a whole number"),
    # an address that is none
    ("shards orders", USAGE, "write kinesis://orders or dynamodb://orders"),
    ("tail kinesys://orders", USAGE, "write kinesis://orders"),
    ("shards kinesis://", USAGE, "is not the name of a stream"),
    ("dashboard --stream orders", USAGE, "write kinesis://orders"),
    # something that is not there
    ("shards kinesis://nothing {endpoint}", SERVICE, "not found"),
    ("tail kinesis://nothing {endpoint}", SERVICE, "not found"),
    ("dashboard --stream kinesis://nothing {endpoint}", SERVICE, "not found"),
    ("tail kinesis://orders --shard shardId-9 {endpoint}", SERVICE, "shardline shards"),
    ("shards kinesis://orders --profile nobody", USAGE, "list-profiles"),
    # a time or place that is none
    ("tail kinesis://orders --since yesterday", USAGE, "write 10m"),
    ("tail kinesis://orders --since 2999-01-01T00:00:00Z", USAGE, "is in the future"),
    # leases
    ("shards kinesis://orders --app billing {endpoint}", USAGE, "--lease-table"),
    ("shards kinesis://orders --lease-table {table} {endpoint}", USAGE, "--app NAME"),
    ("shards kinesis://orders --app a --lease-table leases {endpoint}", USAGE, "sqlite:///FILE"),
    ("leases kinesis://orders --app billing", USAGE, "Missing option '--lease-table'"),
    (f"leases kinesis://orders {LEASED} {{endpoint}}", USAGE, "has it run yet?"),
    (f"leases release kinesis://orders {LEASED}", USAGE, "name the shards, or pass --all"),
    (f"leases release kinesis://orders {LEASED} --all", USAGE, "no leases of 'billing'"),
    (f"leases reset kinesis://orders {LEASED} --all", USAGE, "Missing option '--to'"),
    (f"leases reset kinesis://orders {LEASED} --all --to latest", USAGE, "pass a time"),
    # the page
    ("dashboard --stream kinesis://orders --port {taken} {endpoint}", USAGE, "pass another --port"),
    ("dashboard --stream kinesis://orders --dead-letters x", USAGE, "file:///FOLDER"),
    ("dashboard --stream kinesis://orders --dead-letters kinesis://no {endpoint}", SERVICE, "no:"),
    ("dashboard --stream kinesis://orders --port 99999", USAGE, "--port"),
    ("dashboard --stream kinesis://orders --token abc {endpoint}", USAGE, "8 characters"),
    # a server that is none, or that is not there
    ("shards kinesis://orders --endpoint-url {nobody}", SERVICE, "check --endpoint-url, region"),
    ("tail kinesis://orders --endpoint-url {nobody}", SERVICE, "nothing answers at"),
    ("shards kinesis://orders --endpoint-url 127.0.0.1:4567", USAGE, "write http://127.0.0.1:4567"),
    # a lease table that is none, or that is not there
    ("leases kinesis://orders --app a --lease-table mysql://h/d {endpoint}", USAGE, "sqlite:///"),
    ("leases kinesis://orders --app a --lease-table sqlite:///no.db {endpoint}", USAGE, "no file"),
    ("leases kinesis://orders --app a --lease-table sqlite:///{text} {endpoint}", SERVICE, "not a"),
    (
        "leases kinesis://orders --app a --lease-table dynamodb://t --lease-endpoint-url {nobody}"
        " {endpoint}",
        SERVICE,
        "check --lease-endpoint-url",
    ),
    (
        "leases kinesis://orders --app a --lease-table postgresql://u@127.0.0.1:1/d {endpoint}",
        SERVICE,
        "Connection refused",
    ),
    # the embedded service
    ("local --port {taken}", USAGE, "pass another port"),
    ("local --port 0 --host 192.0.2.1", USAGE, "check the host"),
    ("local --stream orders:many", USAGE, "write NAME:SHARDS"),
    ("local --file /nowhere/at/all", USAGE, "check path and permissions"),
    ("local --prot 1", USAGE, "--port"),
    # a consumer
    ("run", USAGE, "Missing argument 'MODULE:CONSUMER'"),
    ("run consumers:Good", USAGE, "Missing option '--stream'"),
    ("run consumers:Good --stream kinesis://orders {endpoint}", USAGE, "--app …"),
    ("run consumers:Good --app= --stream kinesis://orders {endpoint}", USAGE, "--app …"),
    ("copy kinesis://orders kinesis://no {endpoint}", SERVICE, "kinesis://no: not found"),
    ("copy kinesis://orders kinesis://orders {endpoint}", USAGE, "copied into itself"),
    ("copy kinesis://orders orders {endpoint}", USAGE, "kinesis://NAME"),
    ("run consumers {worker}", USAGE, "write MODULE:CONSUMER"),
    ("run consumer:Good {worker}", USAGE, "there is no consumer in this folder"),
    ("run consumers:God {worker}", USAGE, "did you mean Good or Picky?"),
    ("run consumers:NotOne {worker}", USAGE, "is not a shardline.ShardConsumer"),
    ("run consumers:Picky {worker}", USAGE, "cannot be made without arguments"),
    ("run lacking:Good {worker}", USAGE, "lacking needs nothing_like_it, which is not installed"),
    ("run unfinished:Good {worker}", USAGE, "SyntaxError"),
    ("run raising:Good {worker}", USAGE, "RuntimeError: boom"),
    ("run consumers:Good --app a --stream orders {endpoint}", USAGE, "write kinesis://orders"),
    ("run consumers:Good --app a --stream kinesis://no {endpoint}", SERVICE, "not found"),
    (
        "run consumers:Good --app a --stream kinesis://no --endpoint-url {nobody}",
        SERVICE,
        "nothing",
    ),
    ("run consumers:Good {worker} --start yesterday", USAGE, "'yesterday' is no start"),
    ("run consumers:Good {worker} --lease-table leases", USAGE, "sqlite:///FILE"),
    (
        "run consumers:Good {worker} --lease-table sqlite:////nowhere/a.db",
        SERVICE,
        "does its folder exist",
    ),
    ("run consumers:Good {worker} --lease-seconds 1", USAGE, "--lease-seconds"),
    ("run consumers:Good {worker} --metrics-port {taken}", USAGE, "another --metrics-port"),
    # the demo
    ("demo --seed x", USAGE, "--seed"),
    ("demo --slow", USAGE, "--slow"),
]

MODULES = {
    "consumers": """
import shardline
class Good(shardline.ShardConsumer):
    def process(self, batch): ...
class Picky(Good):
    def __init__(self, url): ...
class NotOne: ...
""",
    "lacking": "import nothing_like_it",
    "unfinished": "def half(:",
    "raising": "raise RuntimeError('boom')",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("mistakes")
    path = folder / "leases.db"
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    table = open_table(f"sqlite:///{path}")
    table.prepare()
    table.close()
    with (
        Service(strict=True, status_delay_seconds=0) as service,  # the stream is there at once
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        service.create_stream("orders", 1)
        endpoint = f"--endpoint-url {service.endpoint_url}"
        yield {
            "endpoint": endpoint,
            "worker": f"--app a --stream kinesis://orders {endpoint}",
            "ephemeral": f"--stream kinesis://orders {endpoint}",
            "nobody": "http://127.0.0.1:1",
            "text": str(folder / "raising.py"),
            "folder": str(folder),
            "table": f"sqlite:///{path}",
            "taken": str(listener.getsockname()[1]),
        }


@pytest.mark.parametrize(("typed", "code", "says"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_gives_one_helpful_line(
    names: dict[str, str], typed: str, code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if typed.startswith("run "):
        pytest.importorskip("pyspark")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(names["folder"])  # where consumers are looked for, and leases left
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = CliRunner().invoke(app, typed.format(**names).split())
    assert result.exit_code == code, result.output
    assert says in result.stderr, result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_missing_credentials_and_region_say_which_options_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    result = CliRunner().invoke(app, ["shards", "kinesis://orders"])
    assert result.exit_code == USAGE, result.output
    assert "pass --region …, or set AWS_REGION" in result.stderr


def test_missing_credentials_say_where_to_get_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    result = CliRunner().invoke(app, ["shards", "kinesis://orders", "--region", "eu-west-1"])
    assert result.exit_code == USAGE, result.output
    assert "pass --profile …, or run `aws configure`" in result.stderr
    assert result.stderr.count("\n") == 1


def test_looking_at_leases_makes_no_file(names: dict[str, str], tmp_path: Path) -> None:
    typed = f"shards kinesis://orders --app a --lease-table sqlite:///{tmp_path}/no.db {{endpoint}}"
    assert CliRunner().invoke(app, typed.format(**names).split()).exit_code == USAGE
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where_an_error_came_from() -> None:
    result = CliRunner().invoke(app, ["--debug", "shards", "orders"])
    assert type(result.exception).__name__ == "ConfigurationError"


def test_the_page_without_its_extra_says_what_to_install(
    names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    for module in ("application", "server"):
        monkeypatch.delitem(sys.modules, f"shardline.dashboard.{module}", raising=False)
    typed = "dashboard --stream kinesis://orders {endpoint}".format(**names)
    result = CliRunner().invoke(app, typed.split())
    assert result.exit_code == USAGE, result.output
    assert "pip install 'shardline[local]'" in result.stderr


def test_a_command_whose_extra_is_missing_names_it(
    names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.delitem(sys.modules, "shardline.leases.sql", raising=False)
    typed = "leases kinesis://orders --app a --lease-table {table} {endpoint}".format(**names)
    result = CliRunner().invoke(app, typed.split())
    assert result.exit_code == USAGE, result.output
    assert "pip install 'shardline[sql]'" in result.stderr


def test_a_halted_shard_is_shown_and_released(names: dict[str, str]) -> None:
    shard_id = "shardId-000000000000"
    table = open_table(names["table"])
    row = LeaseRow("shop", "orders", shard_id, datetime.now(UTC), epoch=1)
    table.swap_row(halted(row, "its consumer raised"), None)
    where = "kinesis://orders --app shop --lease-table {table}".format(**names)
    shown = CliRunner().invoke(app, f"leases {where} {names['endpoint']}".split())
    assert f"{shard_id} is halted: its consumer raised" in shown.output
    released = CliRunner().invoke(app, f"leases release {where} --all --yes".split())
    assert released.exit_code == 0, released.output
    assert "(halted: its consumer raised)" in released.output
    assert table.read_rows("shop", "orders", [shard_id])[shard_id].halted == ""
    table.close()


def test_nothing_is_done_without_a_yes(names: dict[str, str]) -> None:
    table = open_table(names["table"])
    row = LeaseRow("shop", "orders", "s", datetime.now(UTC), lease_owner="w/1", epoch=1)
    table.swap_row(row, None)
    typed = "leases release kinesis://orders --app shop --lease-table {table} s".format(**names)
    result = CliRunner().invoke(app, typed.split(), input="n\n")
    assert result.exit_code == FAILED, result.output
    assert "not confirmed, nothing was done. --yes" in result.stderr
    assert table.read_rows("shop", "orders", ["s"])["s"] == row
    table.close()
