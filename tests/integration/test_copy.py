"""`shardline copy`: each key in order through splits of both streams, and on from its token."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

import shardline
from shardline.local import Service
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST = "shardId-000000000000"
KEYS = [f"key-{number}" for number in range(8)]


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True) as running:
        for name in ("orders", "test"):
            running.create_stream(name, 1)
            wait_until_active(running.client(), name)
        yield running


def write(service: Service, first: int, count: int) -> None:
    records = [(key, f"{n}") for n in range(first, first + count) for key in KEYS]
    shardline.put("kinesis://orders", records, endpoint_url=service.endpoint_url)


def split(service: Service, stream: str) -> None:
    client = service.client()
    client.split_shard(StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey=str(2**127))
    wait_until_active(client, stream)


def command(service: Service, *options: str) -> list[str]:
    copy = ("copy", "kinesis://orders", "kinesis://test", "--endpoint-url", service.endpoint_url)
    return [sys.executable, "-m", "shardline", *copy, *options]


def copied(service: Service, wanted: int) -> dict[str, list[int]]:
    """Return the numbers in the target by key, in the order in which they can be read."""
    found = defaultdict(list)
    with shardline.stream(
        "kinesis://test", "trim_horizon", endpoint_url=service.endpoint_url
    ) as stream:
        for count, record in enumerate(stream, 1):
            found[record.partition_key].append(int(record.data))
            if count == wanted:
                return found
    raise AssertionError("the stream ended")


def test_each_key_is_copied_in_order_through_a_split_of_either_stream(service: Service) -> None:
    write(service, 0, 20)
    split(service, "orders")
    split(service, "test")
    write(service, 20, 20)
    done = subprocess.run(command(service), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("320 records copied")
    assert copied(service, 320) == {key: list(range(40)) for key in KEYS}


def test_a_copy_that_was_ended_goes_on_at_its_token(service: Service, tmp_path: Path) -> None:
    token = ("--token", str(tmp_path / "place"))
    write(service, 0, 10)
    with subprocess.Popen(
        command(service, *token, "--follow"), stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("80 records"):
                break
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    write(service, 10, 10)
    done = subprocess.run(command(service, *token), capture_output=True, text=True, timeout=150)
    assert "80 records copied" in done.stdout, done.stderr
    assert copied(service, 160) == {key: list(range(20)) for key in KEYS}


def test_a_stream_is_not_copied_into_itself(service: Service) -> None:
    typed = [sys.executable, "-m", "shardline", "copy", "kinesis://orders", "kinesis://orders"]
    done = subprocess.run(typed, capture_output=True, text=True, timeout=150)
    assert done.returncode == 2
    assert "into itself" in done.stderr
