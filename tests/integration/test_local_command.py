"""`shardline local` as a person runs it."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import boto3
import pytest

from shardline.errors import ConfigurationError
from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Iterator


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from shardline.cli import main; main()", "local", *arguments]


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command("--port", "0", "--stream", "orders:3", "--stream", "one", "--limits"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_what_to_copy_serves_and_ends_cleanly(
    running: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert running.stdout is not None
    lines: list[str] = []
    while not lines or "Ctrl-C" not in lines[-1]:
        line = running.stdout.readline()
        assert line, running.communicate()
        lines.append(line)
    said = "".join(lines)
    found = re.search(r"AWS_ENDPOINT_URL_KINESIS=(http://127\.0\.0\.1:\d+)", said)
    assert found is not None
    for needed in (
        f"AWS_ENDPOINT_URL_DYNAMODB_STREAMS={found[1]}",
        "AWS_ACCESS_KEY_ID=",
        "aws kinesis",
        "boto3",
    ):
        assert needed in said
    kinesis = boto3.client("kinesis", endpoint_url=found[1], region_name="us-east-1")
    assert kinesis.list_streams()["StreamNames"] == ["one", "orders"]
    assert len(kinesis.list_shards(StreamName="orders")["Shards"]) == 3
    running.send_signal(number)
    rest, errors = running.communicate(timeout=60)
    assert (running.returncode, rest, errors) == (0, "shardline local: stopped.\n", "")


def test_as_json_it_says_in_one_line_where_it_is_and_nothing_else() -> None:
    typed = command("--port", "0", "--stream", "orders:3", "--json")
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        kinesis = boto3.client(
            "kinesis", endpoint_url=ready["endpoint_url"], region_name="us-east-1"
        )
        assert kinesis.list_streams()["StreamNames"] == ["orders"]
        assert ready["event"] == "ready"
        assert ready["streams"] == [{"name": "orders", "open_shards": 3}]
        process.terminate()
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_a_port_in_use_is_one_line_that_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = subprocess.run(
            command("--port", str(port)), capture_output=True, text=True, timeout=60, check=False
        )
        line = rf"port {port} .* in use\): .* pass another port.*"
        with pytest.raises(ConfigurationError, match=line):
            Service(port=port)
    assert result.returncode == 2
    assert result.stdout == ""
    assert re.fullmatch(rf"error: {line}\n", result.stderr)


@pytest.mark.parametrize("stream", ["orders:many", ":2", "orders:0", "bad name:1"])
def test_a_bad_stream_is_one_line(stream: str) -> None:
    result = subprocess.run(
        command("--port", "0", "--stream", stream),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


def test_another_host_than_loopback_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with Service() as service:
        assert service.host == "127.0.0.1"
    assert not caplog.records
    with Service(host="0.0.0.0") as service:  # noqa: S104
        assert service.endpoint_url == f"http://127.0.0.1:{service.port}"
    assert "not loopback" in caplog.text


def test_a_stopped_service_frees_its_port_and_may_be_stopped_again() -> None:
    with Service() as service:
        port = service.port
    service.stop()
    with Service(port=port) as again:
        assert again.port == port
