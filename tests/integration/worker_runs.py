"""`shardline run --engine process` as real processes on a stream that is written to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardline.cli.demo.recorder import HANG_VARIABLE, LOG_VARIABLE
from shardline.cli.demo.workers import Log, report_deliveries
from shardline.core.promise import PromiseChecker, Verdict
from shardline.local.service import Service
from shardline.local.traffic import Traffic
from tests.integration.lease_places import sqlite_place
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.lease_places import LeasePlace

LEASE_SECONDS = 3.0
CALM = ("--lease-seconds", "10")
"""For workers of which nothing may be repeated: on a busy machine one may stand still for 3 s."""
PATIENCE_SECONDS = 120.0
RECORDER = "shardline.cli.demo.recorder:Recorder"


def wait_until(
    happened: Callable[[], bool], what: str, patience_seconds: float = PATIENCE_SECONDS
) -> float:
    """Wait for a condition and return how long that took; fail with its name."""
    began = time.monotonic()
    while not happened():
        if time.monotonic() - began > patience_seconds:
            raise AssertionError(f"waited {patience_seconds:.0f} s in vain: {what}")
        time.sleep(0.02)
    return time.monotonic() - began


class Run:
    """One run: a keeper process, and the runner that it spawns."""

    def __init__(self, name: str, folder: Path, arguments: list[str]) -> None:
        self.name = name
        self.log = Log(folder / f"{name}.jsonl", name)
        self._output = folder / f"{name}.log"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "shardline", "run", *arguments, "--name", name],
                cwd=folder,
                env=os.environ
                | {LOG_VARIABLE: str(self.log.path), HANG_VARIABLE: str(folder / "hang")},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def children(self) -> list[int]:
        """Return the runner processes of this keeper."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = {int(pid) for task in tasks for pid in task.read_text().split()}
        return sorted(found | {int(pid) for pid in path.read_text().split()})

    def delivered(self) -> int:
        self.log.read_on()
        return sum(len(line.records) for line in self.log.lines if line.what == "delivered")

    def started(self) -> set[str]:
        """Return the shards that it has begun to work on."""
        self.log.read_on()
        return {line.shard_id for line in self.log.lines if line.what == "started"}

    def shards_since(self, at: float) -> set[str]:
        """Return the shards of which something was delivered after a moment."""
        self.log.read_on()
        return {x.shard_id for x in self.log.lines if x.what == "delivered" and x.at > at}

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the keeper and its runner."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill_all(self) -> None:
        self.signal_all(signal.SIGKILL)
        self.process.wait()


class Stage:
    """A stream, writers, runs, and the checker that judges what the runs recorded."""

    def __init__(self, service: Service, folder: Path, shards: int, place: LeasePlace) -> None:
        self.service, self.folder = service, folder
        self.client = service.client("kinesis")
        self.client.create_stream(StreamName="orders", ShardCount=shards)
        wait_until_active(self.client, "orders")
        self.place = place
        self.endpoint_url = service.endpoint_url
        """What workers are given; writers go to the service itself."""
        self.runs: list[Run] = []
        self._shards: dict[str, dict[str, Any]] = {}
        self._traffic: Any = None

    def write(self, keys: int = 40, pause_seconds: float = 0.002) -> Traffic:
        names = [f"key-{n}" for n in range(keys)]
        traffic = Traffic(self.client, "orders", names, writers=2, pause_seconds=pause_seconds)
        self._traffic = traffic.start()
        return traffic

    def use(self, traffic: Any) -> None:
        """Judge by what another writer has written, from now on."""
        self._traffic = traffic

    def shard_ids(self) -> list[str]:
        return [shard["ShardId"] for shard in self.listed()]

    def listed(self) -> list[dict[str, Any]]:
        """Return all shards that were ever listed: one listing may lack the newest."""
        for shard in self.client.list_shards(StreamName="orders")["Shards"]:
            self._shards[shard["ShardId"]] = shard
        return list(self._shards.values())

    def start(
        self, name: str, *more: str, consumer: str = RECORDER, engine: str = "process"
    ) -> Run:
        arguments = [
            *(consumer, "--stream", "kinesis://orders"),
            *("--app", "billing", "--engine", engine, "--lease-table", self.place.address),
            *(("--lease-endpoint-url", url) if (url := self.place.endpoint_url) else ()),
            *("--endpoint-url", self.endpoint_url, "--status-seconds", "1"),
            *("--lease-seconds", str(LEASE_SECONDS), *more),
        ]
        run = Run(name, self.folder, arguments)
        self.runs.append(run)
        return run

    def caught_up(self) -> bool:
        return self.verdict().lost == 0

    def verdict(self) -> Verdict:
        checker = PromiseChecker()
        for shard in self.listed():
            parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
            checker.shard(shard["ShardId"], [parent for parent in parents if parent])
        if self._traffic is not None:
            self._traffic.report_to(checker)
        for run in self.runs:
            run.log.read_on()
        report_deliveries(checker, [run.log for run in self.runs])
        return checker.verdict()

    def end_traffic(self) -> None:
        if self._traffic is not None:
            self._traffic.stop()

    def close(self) -> None:
        if self._traffic is not None:
            self._traffic.end()
        for run in self.runs:
            run.kill_all()


@contextmanager
def stage_on(folder: Path, place: LeasePlace | None = None, *, shards: int = 4) -> Iterator[Stage]:
    with Service(strict=True) as service:
        stage = Stage(service, folder, shards, place or sqlite_place(folder / "leases.db"))
        try:
            yield stage
        finally:
            stage.close()
