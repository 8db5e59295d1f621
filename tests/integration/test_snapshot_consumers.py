"""Consumers that start with the items of a table: shared, killed, split in the middle."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from shardline.local import Service
from shardline.services.access import Access
from shardline.services.connection import connect
from shardline.services.pace import UNPACED
from shardline.services.snapshot_stream import MARGIN, SnapshotSettings
from shardline.streams.stream import Stream
from tests.integration.changing_table import ChangingTable, seeds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_SECONDS = 90


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as service:
        yield service


@pytest.mark.parametrize("seed", seeds(6))
def test_the_copy_equals_the_table_through_writes_a_split_and_crashes(
    service: Service, seed: int
) -> None:
    rng = random.Random(seed)
    table = ChangingTable(service, rng)
    settings = SnapshotSettings(segments=rng.choice((1, 2, 3)))

    def opened(position: Any) -> Stream[Any]:
        stream = connect(
            f"dynamodb://{table.name}",
            Access(endpoint_url=service.endpoint_url),
            snapshot=settings,
        )
        options: dict[str, Any] = {"poll_seconds": 0.01, "list_seconds": 0.05, "quota": UNPACED}
        return Stream(
            stream, position, page_size=rng.choice((1, 3, 100)), patience_seconds=0.2, **options
        )

    for _ in range(rng.randrange(25)):
        table.write()
    copy: dict[tuple[str, int], int] = {}

    def apply(record: Any) -> None:
        if record is None:
            return
        key = record.keys["id"]["S"], int(record.keys["place"]["N"])
        if record.new is None:
            copy.pop(key, None)
        else:
            copy[key] = int(record.new["value"]["N"])

    stream = opened(service.clock.now() - MARGIN)
    saved = stream.token
    reshard_at = rng.randrange(30)
    for turn in range(30):
        if turn == reshard_at:
            table.reshard()
        if rng.random() < 0.7:
            table.write()
        apply(next(stream))
        if rng.random() < 0.3:
            saved = json.loads(json.dumps(stream.token))
        if rng.random() < 0.1:  # a crash: everything since the last checkpoint comes again
            stream.close()
            stream = opened(saved)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while copy != table.stored:
        assert time.monotonic() < deadline, f"{len(copy)} of {len(table.stored)} items are there"
        apply(next(stream))
    stream.close()
    table.close()


class Worker:
    """A worker of the app in a process of its own."""

    def __init__(self, service: Service, table: str, folder: Path, *more: str) -> None:
        arguments = [
            *(sys.executable, "-m", "shardline", "run"),
            *("tests.integration.snapshot_consumer:Copier", "--stream", f"dynamodb://{table}"),
            *("--app", "copy", "--engine", "process", "--start", "snapshot"),
            *("--lease-table", f"sqlite:///{folder}/leases.db", "--lease-seconds", "3"),
            *("--endpoint-url", service.endpoint_url, *more),
        ]
        environment = {"SNAPSHOT_TABLE": table, "SNAPSHOT_FILE": str(folder / "changes.jsonl")}
        with (folder / "output.txt").open("a") as output:
            self.process = subprocess.Popen(
                arguments,
                env=os.environ | environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def test_workers_share_the_snapshot_and_one_that_dies_is_replaced(
    service: Service, tmp_path: Path
) -> None:
    table = ChangingTable(service, random.Random(7))
    for _ in range(40):
        table.write()
    at_start = dict(table.stored)
    file = tmp_path / "changes.jsonl"

    def lines() -> list[dict[str, Any]]:
        text = file.read_text("utf-8") if file.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def copied() -> dict[tuple[str, int], int]:
        copy: dict[tuple[str, int], int] = {}
        for line in lines():
            key = line["key"][0], line["key"][1]
            copy.pop(key, None)
            if line["value"] is not None:
                copy[key] = line["value"]
        return copy

    def wait_for(condition: Any, what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            output = (tmp_path / "output.txt").read_text()[-3000:]
            assert time.monotonic() < deadline, f"not in time: {what}\n{output}"
            table.write()
            time.sleep(0.05)

    workers = [Worker(service, table.name, tmp_path) for _ in range(2)]
    try:
        wait_for(lambda: len(lines()) >= 5, "the first items")
        table.reshard()
        workers[0].kill()
        wait_for(lambda: {x["type"] for x in lines()} > {"snapshot"}, "a change after the table")
        for _ in range(20):
            table.write()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while copied() != table.stored:
            assert time.monotonic() < deadline, (tmp_path / "output.txt").read_text()[-3000:]
            time.sleep(0.1)
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.kill()
    found = lines()
    snapshots = [line for line in found if line["type"] == "snapshot"]
    assert {(line["key"][0], line["key"][1]) for line in snapshots} >= at_start.keys() - {
        (line["key"][0], line["key"][1]) for line in found if line["type"] != "snapshot"
    }
    assert {line["shard"] for line in snapshots} <= {f"snapshot-{n:04d}-of-0004" for n in range(4)}
    first_change = next(n for n, line in enumerate(found) if line["type"] != "snapshot")
    assert all(line["type"] != "snapshot" for line in found[first_change:])
    table.close()
