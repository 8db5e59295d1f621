"""A stream with a long past, served by a process of its own until its input is closed.

    python -m tests.spark.backlog RECORDS SHARDS

It prints its address. The records lie almost as dense as a shard takes them, which would take
minutes to write: so they are put where the service keeps them, and it is its clock that passes.
"""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shardline.core.shards import HASH_SPACE_END
from shardline.local import Service
from shardline.local.kinesis.records import put_records

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "backlog"
DATA = b64encode(b"x" * 100).decode()
STEP_SECONDS = 0.01
RECORDS_PER_STEP = 9
"""Of each shard: 900 a second, of the 1,000 that a shard takes."""


def fill(service: Service, records: int, shards: int) -> None:
    """Write so many records, the same to every shard, a few and then time passes."""
    service.client("kinesis").create_stream(StreamName=NAME, ShardCount=shards)
    width = (HASH_SPACE_END + 1) // shards
    step = [
        {"PartitionKey": f"key-{n}", "Data": DATA, "ExplicitHashKey": str(width * n)}
        for n in range(shards)
    ] * RECORDS_PER_STEP
    for written in range(0, records, len(step)):
        entries = step[: records - written]
        request = {"StreamName": NAME, "Records": entries}
        put_records(service.kinesis.account, request, service.clock.now_ms())
        service.clock.advance(STEP_SECONDS)


@contextmanager
def served_backlog(records: int, shards: int) -> Iterator[str]:
    """Serve a backlog from another process; yields its address once it is filled."""
    command = [sys.executable, "-m", "tests.spark.backlog", str(records), str(shards)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both were asked for")
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def main(records: str, shards: str) -> None:
    """Fill, tell where, serve."""
    # Not strict: the records are put past its doors, faster than its limits let them in.
    with Service() as service:
        fill(service, int(records), int(shards))
        sys.stdout.write(f"{service.endpoint_url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
