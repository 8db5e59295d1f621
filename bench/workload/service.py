"""The embedded service in a process of its own, with the limits of Kinesis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import boto3

from bench.workload.connection import Connection
from bench.workload.writer import KEEP_MEMORY, Writing, result, start

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION: Final = "us-east-1"
_START_SECONDS: Final = 30.0
_FILL_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Reads:
    """What was read of a shard."""

    limited: float
    """When the first read was answered after which the quota made the reader wait."""
    free: float
    """When the quota had room again after the last one."""


class Kinesis:
    """A running service: its streams and limits."""

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url
        self.client: Any = boto3.client(
            "kinesis",
            endpoint_url=endpoint_url,
            region_name=REGION,
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106 - any will do
        )

    def create(self, stream: str, shards: int) -> None:
        """Create a stream and wait until it can be used."""
        self.client.create_stream(StreamName=stream, ShardCount=shards)
        self.wait_until_active(stream)

    def wait_until_active(self, stream: str) -> None:
        """Wait for the end of a creation or a reshard."""
        while True:
            summary = self.client.describe_stream_summary(StreamName=stream)
            if summary["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE":
                return
            time.sleep(0.05)

    def fill(self, stream: str, shards: int, records: int) -> None:
        """Write so many records to each shard, without limits, which are on afterwards."""
        self.limit(enabled=False)
        writing = Writing(self.endpoint_url, stream, shards, 0, fill=records)
        written = result(start(writing), _FILL_SECONDS)
        assert written.records == shards * records, written
        self.limit(enabled=True)

    def reads(self, stream: str) -> list[Reads]:
        """Return what was read of each shard since the last such call, by the clock of here.

        That of the service is ahead: it was moved when streams were filled.
        """
        connection = Connection(self.endpoint_url)
        answer = connection.control("kinesis/reads", json.dumps({"StreamName": stream}).encode())
        clock = json.loads(connection.control("clock/advance", b'{"seconds":0}'))
        ahead_ms = clock["now_ms"] - time.time() * 1000
        connection.close()
        return [
            Reads(
                ((each["LimitedMs"] or each["FirstMs"]) - ahead_ms) / 1000,
                (each["FreeMs"] - ahead_ms) / 1000,
            )
            for each in json.loads(answer)["Shards"]
            if each["Records"]
        ]

    def limit(self, *, enabled: bool) -> None:
        """Switch the limits of calls and bytes on or off."""
        connection = Connection(self.endpoint_url)
        connection.control("limits", json.dumps({"enabled": enabled}).encode())
        connection.close()


@contextmanager
def kinesis(memory_mib: int = 0) -> Iterator[Kinesis]:
    """Run a service, with so much memory for records: see `bench.workload.touched`."""
    command = [sys.executable, "-m", "bench.workload.touched", str(memory_mib)]
    command += ["local", "--port", "0", "--json"]
    keep = os.environ | KEEP_MEMORY
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=keep) as process:
        assert process.stdout is not None
        if hasattr(os, "sched_setaffinity"):  # else it waits for a core while another one is idle
            os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(process.pid))})
        try:
            yield Kinesis(_endpoint_url(process))
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()


def _endpoint_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("shardline local did not start")
    return str(json.loads(line)["endpoint_url"])
