"""Running workers that start with the items of a table, under load, with a split in the middle."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from shardline.consumer.keeper import keep
from shardline.consumer.launch import RunningConsumer
from shardline.consumer.launch_options import job_of
from shardline.local import Service
from shardline.tables.consumers import change_reader
from tests.integration.changing_table import ChangingTable, Load, seeds
from tests.integration.snapshot_consumer import Copier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from shardline.consumer.job import Job

DEADLINE_SECONDS = 90


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as service:
        yield service


class Written:
    """What the consumers have written, folded into a copy of the table."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self.copy: dict[tuple[str, int], int] = {}
        self.kinds: list[str] = []
        self.runners: list[int] = []
        self.repeated = False
        self._seen: set[tuple[Any, ...]] = set()

    def read_on(self) -> None:
        """Read the whole lines that were added since."""
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in map(json.loads, whole.splitlines()):
            key = line["key"][0], line["key"][1]
            self.copy.pop(key, None)
            if line["value"] is not None:
                self.copy[key] = line["value"]
            if line["type"] == "snapshot":
                assert set(self.kinds) <= {"snapshot"}, "an item of the table came after a change"
            change = (line["shard"], *key, line["type"], line["value"])
            self.repeated |= change in self._seen
            self._seen.add(change)
            self.kinds.append(line["type"])
            self.runners.append(line["worker"])

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        self.read_on()
        while not condition():
            assert time.monotonic() < deadline, f"not in time: {what}"
            time.sleep(0.02)
            self.read_on()


@contextmanager
def workers(job: Job, count: int) -> Iterator[None]:
    """Run workers here, each with a runner process of its own, as `shardline run` does."""
    stopping = threading.Event()

    def place(job: Job, index: int, attempt: int) -> None:
        keep(job, index, attempt, leave=stopping.is_set)

    running = RunningConsumer(job, count, place, stopping=stopping)
    try:
        yield
    finally:
        running.stop()


@pytest.mark.parametrize("seed", seeds(3))
def test_the_copy_equals_the_table_under_load_with_a_split_and_a_kill(
    service: Service, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    table = ChangingTable(service, random.Random(seed), large=True)
    for _ in range(rng.randrange(1, 80)):
        table.write()
    written = Written(tmp_path / "changes.jsonl")
    consumer, address = Copier(str(tmp_path / "changes.jsonl")), f"dynamodb://{table.name}"
    options: dict[str, Any] = {
        "lease_seconds": 2.0,
        "checkpoint_seconds": 0.2,
        "batch_records": rng.choice((1, 7, 10_000)),
        "snapshot_segments": rng.choice((1, 3, 7)),
    }
    job = job_of(
        consumer,
        pickle.dumps,
        streams=(address,),
        app="copy",
        lease_table=f"sqlite:///{tmp_path}/leases.db",
        start="snapshot",
        endpoint_url=service.endpoint_url,
        change_of=change_reader(consumer, address),
        **options,
    )
    with Load(table, rng) as load, workers(job, rng.choice((1, 2))):
        written.wait_for(lambda: bool(written.kinds), "the first items")
        load.items_came()
        if rng.random() < 0.3:
            os.kill(written.runners[-1], signal.SIGKILL)
        written.wait_for(lambda: set(written.kinds) > {"snapshot"}, "a change after the table")
        load.changes_came()
        load.join(DEADLINE_SECONDS)
        written.wait_for(lambda: written.copy == table.stored, "the copy equals the table")
    written.read_on()
    # A worker that took a lease over goes back to its checkpoint, and may be stopped on its way.
    assert written.copy == table.stored or written.repeated, "it stays equal"
    table.close()
