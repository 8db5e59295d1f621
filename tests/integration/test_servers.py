"""The servers that the other tests stand on: each answers, and none outlives the tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import boto3
import psycopg
import pytest

from tests.servers.process import Launch, ServerFailed, reserved_port, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests import servers


def test_kinesalite_keeps_streams(kinesalite: servers.Endpoint) -> None:
    kinesis = boto3.client("kinesis", endpoint_url=kinesalite.endpoint_url)
    kinesis.create_stream(StreamName="smoke", ShardCount=1)
    described = kinesis.describe_stream(StreamName="smoke")["StreamDescription"]
    assert described["StreamName"] == "smoke"


def test_kinesis_mock_keeps_streams(kinesis_mock: servers.Endpoint) -> None:
    kinesis = boto3.client("kinesis", endpoint_url=kinesis_mock.endpoint_url)
    kinesis.create_stream(StreamName="smoke", ShardCount=1)
    described = kinesis.describe_stream(StreamName="smoke")["StreamDescription"]
    assert described["StreamName"] == "smoke"


@pytest.mark.parametrize("server", ["dynamodb_local", "ministack"])
def test_tables_refuse_a_conditional_write_that_lost(
    server: str, request: pytest.FixtureRequest
) -> None:
    endpoint: servers.Endpoint = request.getfixturevalue(server)
    dynamodb = boto3.client("dynamodb", endpoint_url=endpoint.endpoint_url)
    dynamodb.create_table(
        TableName="smoke",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    row = {"TableName": "smoke", "Item": {"id": {"S": "1"}}}
    unless_there = {"ConditionExpression": "attribute_not_exists(id)"}
    dynamodb.put_item(**row, **unless_there)
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(**row, **unless_there)


def test_postgresql_answers(postgresql: servers.Database) -> None:
    with psycopg.connect(postgresql.dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


ECHO = "import http.server as h; h.HTTPServer(('127.0.0.1', {port}), h.BaseHTTPRequestHandler)"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def serve(port: int) -> Launch:
    return Launch([sys.executable, "-c", ECHO.format(port=port) + ".serve_forever()"])


def test_a_port_that_was_taken_meanwhile_is_given_up_for_another() -> None:
    tried: list[int] = []

    def launch(port: int) -> Launch:
        tried.append(port)
        return serve(taken if len(tried) == 1 else port)

    with (
        reserved_port() as taken,
        running("first", lambda _: serve(taken), lambda _: listens(taken)),
        running("second", launch, lambda port: port != tried[0] and listens(port)) as port,
    ):
        assert len(tried) == 2
        assert port == tried[1]


def test_a_port_is_given_to_one_server_at_a_time() -> None:
    with (
        reserved_port() as port,
        socket.socket(type=socket.SOCK_DGRAM) as other,
        pytest.raises(OSError, match="in use"),
    ):
        other.bind(("127.0.0.1", port))


def test_a_server_that_cannot_start_is_an_error_with_what_it_printed() -> None:
    broken = Launch([sys.executable, "-c", "raise SystemExit('no such database')"])
    with (
        pytest.raises(ServerFailed, match="no such database"),
        running("broken", lambda _: broken, listens),
    ):
        pass


def test_a_server_ends_even_when_its_starter_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "starter.py"
    script.write_text(
        "from tests.integration.test_servers import serve, listens\n"
        "from tests.servers.process import running\n"
        "with running('orphan', serve, listens) as port:\n"
        "    print(port, flush=True)\n"
        "    input()\n"
    )
    starter = subprocess.Popen(
        [sys.executable, str(script)],
        # It leaves its folder behind when it is killed: let that be in ours.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline())
        assert listens(port)
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while listens(port):
        assert time.monotonic() < deadline, "the server outlived its starter"
        time.sleep(0.02)
