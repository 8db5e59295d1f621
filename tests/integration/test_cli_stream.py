"""The commands against a stream that lives: the embedded service over HTTP, split and merged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from shardline.cli import app
from shardline.consumer.consumer import ShardBatch
from shardline.consumer.dead_letters import open_dead_letters
from shardline.core.fences import Fence
from shardline.core.leasing.rows import Heartbeat, LeaseRow, released
from shardline.core.positions import TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.leases.address import open_table
from shardline.local import Service
from shardline.services.access import Access, make_client
from tests.unit.consumer.shard_pages import page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shardline.leases.port import LeaseTable
    from tests.servers import Endpoint

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A stream of two shards; the first was split after four records."""
    # Not strict: what is printed is compared to the letter, and retries are printed too.
    with Service() as running:
        running.create_stream("orders", 2)
        kinesis = running.client()
        hash_key = {"StreamName": "orders", "ExplicitHashKey": "0"}
        for number in range(3):
            data = json.dumps({"number": number}).encode()
            kinesis.put_record(**hash_key, PartitionKey="a", Data=data)
        kinesis.put_record(**hash_key, PartitionKey="b\x1b[31m", Data=b"\x1b[2Jboo")
        kinesis.split_shard(StreamName="orders", ShardToSplit=FIRST, NewStartingHashKey=str(2**126))
        kinesis.put_record(**hash_key, PartitionKey="a", Data=b'{"number": 3}')
        yield running


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/leases.db"


@pytest.fixture
def table(address: str, service: Service) -> Iterator[LeaseTable]:
    """The leases of an application that reads the first shard and has not begun the second."""
    opened = open_table(address)
    opened.prepare()
    made = service.client().describe_stream_summary(StreamName="orders")
    created = made["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    opened.swap_row(
        LeaseRow(
            "billing", "orders", FIRST, created, lease_owner="w1/a", epoch=4, lease_count=9,
            checkpoint=After(SequenceNumber("7")), as_of=datetime.now(UTC),
        ),
        None,
    )  # fmt: skip
    opened.swap_row(LeaseRow("billing", "orders", SECOND, created), None)
    yield opened
    opened.close()


def run(service: Service | None, *typed: str, code: int = 0) -> str:
    place = ["--endpoint-url", service.endpoint_url] if service else []
    result = CliRunner().invoke(app, [*typed, *place])
    assert result.exit_code == code, result.output
    return result.stdout


def run_wrong(service: Service, *typed: str) -> str:
    result = CliRunner().invoke(app, [*typed, "--endpoint-url", service.endpoint_url])
    assert result.exit_code == 3, result.output
    return result.stderr


def leased(address: str) -> list[str]:
    return ["kinesis://orders", "--app", "billing", "--lease-table", address]


def test_shards_as_a_tree_without_control_codes(service: Service) -> None:
    text = run(service, "shards", "kinesis://orders")
    assert "├─ shardId-000000000002" in text
    assert "4 shards: 1 closed, 3 open" in text
    assert "\x1b" not in text


@pytest.mark.req("K-24")
def test_shards_with_leases_say_who_works_and_who_waits_for_whom(
    service: Service, table: LeaseTable, address: str
) -> None:
    shown = json.loads(run(service, "shards", *leased(address), "--json"))["shards"]
    assert [(s["id"][-1], s["state"], s["owner"], s["waits_for"]) for s in shown] == [
        ("0", "readable", "w1/a", []),
        ("1", "readable", None, []),
        ("2", "waiting", None, [FIRST]),
        ("3", "waiting", None, [FIRST]),
    ]
    assert "waiting for …000" in run(service, "shards", *leased(address))


@pytest.mark.req("O-02", "O-03")
def test_tail_prints_every_key_in_order_through_the_split(service: Service) -> None:
    lines = run(
        service, "tail", "kinesis://orders", "--since", "trim_horizon", "--key", "a",
        "--no-follow", "--json",
    ).splitlines()  # fmt: skip
    assert [json.loads(json.loads(line)["data"])["number"] for line in lines] == [0, 1, 2, 3]


def test_tail_shows_hostile_records_as_text(service: Service) -> None:
    text = run(
        service, "tail", "kinesis://orders", "--since", "10m", "--shard", FIRST, "--max", "4"
    )
    assert "b\\x1b[31m  \\x1b[2Jboo" in text
    assert "\x1b" not in text


def test_tail_of_one_shard_shows_no_other(service: Service) -> None:
    child = "shardId-000000000002"
    typed = ["tail", "kinesis://orders", "--since", "trim_horizon", "--shard", child]
    lines = run(service, *typed, "--no-follow", "--json").splitlines()
    assert {json.loads(line)["shard_id"] for line in lines} == {child}


def test_tail_raw_writes_the_payload_as_it_is(service: Service) -> None:
    out = run(service, "tail", "kinesis://orders", "--since", "1h", "--max", "1", "--format", "raw")
    assert out == '{"number": 0}\n'


def test_tail_follows_until_interrupted(service: Service) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-c", "from shardline.cli import main; main()"),
            *("tail", "kinesis://orders", "--since", "trim_horizon", "--json"),
            *("--endpoint-url", service.endpoint_url),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tail:
        assert tail.stdout is not None
        before = [tail.stdout.readline() for _ in range(5)]
        service.client().put_record(StreamName="orders", PartitionKey="new", Data=b"later")
        assert json.loads(tail.stdout.readline())["data"] == "later"
        assert len(before) == 5
        os.kill(tail.pid, signal.SIGINT)
        assert tail.wait(timeout=30) == 130
        assert tail.stderr is not None
        assert tail.stderr.read() == ""


def test_doctor_tries_the_stream_and_the_table(
    service: Service, table: LeaseTable, address: str
) -> None:
    typed = ["doctor", "--stream", "kinesis://orders", "--lease-table", address, "--json"]
    findings = {finding["name"]: finding for finding in json.loads(run(service, *typed))}
    for name in ("Python", "region", "endpoint", "may describe", "may list", "may read"):
        assert findings[name]["outcome"] == "fine", findings[name]
    assert findings["lease table"]["outcome"] == "fine"


def test_doctor_creates_no_lease_table(service: Service, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/none.db"
    typed = ("doctor", "--stream", "kinesis://orders", "--lease-table", address)
    assert f"there is no file {tmp_path}/none.db" in run(service, *typed, code=1)
    assert list(tmp_path.iterdir()) == []


def test_doctor_fails_with_the_reason_where_something_is_missing(service: Service) -> None:
    text = run(service, "doctor", "--stream", "kinesis://nothing", code=1)
    assert "✗ may describe" in text
    assert "check the name, region and account" in text


def test_leases_show_owner_epoch_checkpoint_and_lag(
    service: Service, table: LeaseTable, address: str
) -> None:
    text = run(service, "leases", *leased(address))
    assert "w1" in text
    assert "after 7" in text
    first, second = json.loads(run(service, "leases", *leased(address), "--json"))["leases"]
    assert (first["owner"], first["epoch"], first["checkpoint"]) == ("w1/a", 4, "after 7")
    assert 0 <= first["lag_seconds"] < 3600
    assert second["owner"] is None


def test_a_dry_run_changes_nothing_and_release_only_the_owner(
    table: LeaseTable, address: str
) -> None:
    before = table.read_rows("billing", "orders", [FIRST])[FIRST]
    typed = ["leases", "release", *leased(address), "--all"]
    assert run(None, *typed, "--dry-run") == f"would release {FIRST} from w1/a\n"
    assert table.read_rows("billing", "orders", [FIRST])[FIRST] == before
    run(None, *typed, "--yes")
    after = table.read_rows("billing", "orders", [FIRST])[FIRST]
    assert (after.lease_owner, after.checkpoint) == (None, before.checkpoint)
    assert after.version > before.version


def test_reset_is_refused_while_somebody_works(
    service: Service, table: LeaseTable, address: str
) -> None:
    typed = ["leases", "reset", *leased(address), "--all", "--to", "trim_horizon", "--yes"]
    assert "stop the workers first" in CliRunner().invoke(app, typed).stderr
    run(None, "leases", "release", *leased(address), "--all", "--yes")
    table.swap_heartbeat(Heartbeat("billing", "orders", "w2/b"), None)
    assert "stop the workers first" in CliRunner().invoke(app, typed).stderr
    assert table.read_rows("billing", "orders", [FIRST])[FIRST].checkpoint != TRIM_HORIZON
    run(service, *typed, "--force")
    assert table.read_rows("billing", "orders", [FIRST])[FIRST].checkpoint == TRIM_HORIZON


def test_reset_leaves_finished_shards_alone_that_the_stream_no_longer_lists(
    service: Service, table: LeaseTable, address: str
) -> None:
    row = table.read_rows("billing", "orders", [FIRST])[FIRST]
    for shard_id in ("shardId-000000000900", "shardId-000000000901"):
        gone = LeaseRow("billing", "orders", shard_id, row.stream_created_at)
        table.swap_row(replace(gone, completed=shard_id.endswith("0")), None)
    table.swap_row(replace(released(row), completed=True), row)
    typed = ["leases", "reset", *leased(address), "--all", "--to", "trim_horizon"]
    lines = run(service, *typed, "--dry-run").splitlines()
    assert lines[-1] == "shardId-000000000900 stays finished: the stream no longer lists it"
    assert [line.split()[2] for line in lines[:-1]] == [FIRST, SECOND, "shardId-000000000901"]
    done = json.loads(run(service, *typed, "--yes", "--json"))
    assert done["left_alone"] == ["shardId-000000000900"]
    rows = table.read_rows("billing", "orders", [FIRST, "shardId-000000000900"])
    assert [row.completed for row in rows.values()] == [False, True]


def test_reset_moves_one_shard_to_a_time(service: Service, table: LeaseTable, address: str) -> None:
    run(service, "leases", "reset", *leased(address), SECOND, "--to", "2026-01-01T00:00Z", "--yes")
    rows = table.read_rows("billing", "orders", [FIRST, SECOND])
    assert rows[SECOND].checkpoint == AtTime(datetime(2026, 1, 1, tzinfo=UTC))
    assert rows[FIRST].checkpoint == After(SequenceNumber("7"))


def test_the_dashboard_prints_a_snapshot(service: Service, table: LeaseTable, address: str) -> None:
    typed = ["dashboard", "--stream", *leased(address), "--json"]
    snapshot = json.loads(run(service, *typed))
    assert snapshot["app"] == "billing"
    assert [worker["name"] for worker in snapshot["workers"]] == ["w1/a"]


def test_the_dashboard_serves_its_page_until_interrupted(service: Service) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-c", "from shardline.cli import main; main()"),
            *("dashboard", "--stream", "kinesis://orders", "--port", "0", "--measure"),
            *("--endpoint-url", service.endpoint_url),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as dashboard:
        assert dashboard.stdout is not None
        assert dashboard.stderr is not None
        said = dashboard.stdout.readline()
        assert "read-only" in said
        url = next(word for word in said.split() if word.startswith("http"))
        with urllib.request.urlopen(f"{url}snapshot", timeout=30) as answer:  # noqa: S310
            assert len(json.load(answer)["shards"]) == 4
        os.kill(dashboard.pid, signal.SIGINT)
        assert dashboard.wait(timeout=30) == 130
        assert dashboard.stderr.read() == ""


def test_the_dashboard_says_that_the_service_is_gone_and_ends_at_once_all_the_same() -> None:
    with Service(strict=True) as service:
        service.create_stream("orders", 1)
        dashboard = subprocess.Popen(
            [
                *(sys.executable, "-c", "from shardline.cli import main; main()"),
                *("dashboard", "--stream", "kinesis://orders", "--port", "0", "--every", "0.2"),
                *("--endpoint-url", service.endpoint_url),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert dashboard.stdout is not None
        url = next(word for word in dashboard.stdout.readline().split() if "http" in word)
    with dashboard:
        deadline, notice = time.monotonic() + 60, ""
        while not notice and time.monotonic() < deadline:
            with urllib.request.urlopen(f"{url}snapshot", timeout=30) as answer:  # noqa: S310
                notice = json.load(answer)["notice"]
        assert "nothing answers at" in notice
        dashboard.send_signal(signal.SIGINT)
        assert dashboard.wait(timeout=30) == 130


def test_a_lease_table_in_dynamodb_is_found_at_its_own_endpoint(
    service: Service, dynamodb_local: Endpoint
) -> None:
    table = open_table("dynamodb://cli-leases", Access(endpoint_url=dynamodb_local.endpoint_url))
    table.prepare()
    made = datetime.now(UTC)
    table.swap_row(LeaseRow("shop", "orders", FIRST, made, lease_owner="w9/z", epoch=1), None)
    place = [
        "--lease-table",
        "dynamodb://cli-leases",
        "--lease-endpoint-url",
        dynamodb_local.endpoint_url,
    ]
    leases = run(service, "leases", "kinesis://orders", "--app", "shop", *place)
    assert "w9" in leases
    assert "w9" in run(service, "shards", "kinesis://orders", "--app", "shop", *place)
    run(None, "leases", "release", "kinesis://orders", "--app", "shop", *place, FIRST, "--yes")
    assert table.read_rows("shop", "orders", [FIRST])[FIRST].lease_owner is None
    findings = json.loads(run(service, "doctor", *place, "--json"))
    assert findings[-1]["name"] == "lease table"
    table.close()


def test_the_dashboard_shows_dead_letters_of_a_table(
    service: Service, dynamodb_local: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_local.endpoint_url)
    dynamodb = make_client("dynamodb", Access(region="us-east-1"))
    dynamodb.create_table(
        TableName="page-letters",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    letters = open_dead_letters("dynamodb://page-letters", Access(region="us-east-1"))
    letters.write(ShardBatch(FIRST, Fence(1, 1), page(("ann", 7))), "no number")
    typed = [
        "dashboard",
        "--stream",
        "kinesis://orders",
        "--dead-letters",
        "dynamodb://page-letters",
    ]
    (shown,) = json.loads(run(service, *typed, "--json"))["dead_letters"]
    assert (shown["shard_id"], shown["reason"]) == (FIRST, "no number")
    assert "not found" in run_wrong(service, *typed[:-1], "dynamodb://none", "--json")


def test_doctor_wants_no_aws_until_a_stream_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL_KINESIS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert "– region" in run(None, "doctor")
    assert "✗ region" in run(None, "doctor", "--stream", "kinesis://orders", code=1)


def test_doctor_asks_for_no_credentials_where_the_environment_names_a_local_server(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", service.endpoint_url)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    result = CliRunner().invoke(app, ["doctor", "--json"])
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    assert "a local server needs none" in str(findings["credentials"])
