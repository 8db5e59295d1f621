"""Four worker processes are killed and frozen by chance while shards split and merge."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals
from typing import TYPE_CHECKING

import pytest

from shardline.cli.demo_workers import Log, tell
from shardline.core.leasing_rows import worker_name
from shardline.core.promise import PromiseChecker
from shardline.leases.opening import open_table
from shardline.local import Service
from shardline.local.traffic import Traffic, reshard_once
from shardline.services.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from shardline.leases.port import LeaseTable

KEYS = [f"key-{n}" for n in range(60)]
CHAOS_ROUNDS = 8
PATIENCE_SECONDS = 240


class Crew:
    """The workers that are meant to run, and the logs of all that ever ran."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self._folder, self._arguments = folder, arguments
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: list[Log] = []

    def start(self, name: str) -> None:
        path = self._folder / f"{name}-{len(self.logs)}.jsonl"
        self.logs.append(Log(path, f"{name}-{len(self.logs)}"))
        self.processes[name] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.integration.lease_worker", name),
                *(*self._arguments, str(path)),
            ],
        )

    def signal(self, name: str, number: Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.processes[name].pid, number)

    def seen(self) -> int:
        for log in self.logs:
            log.read_on()
        return len({(x.shard_id, r) for log in self.logs for x in log.lines for r in x.records})

    def end(self, number: Signals) -> list[int]:
        for name in self.processes:
            self.signal(name, number)
        return [process.wait(60) for process in self.processes.values()]


@pytest.fixture(params=["sqlite", "dynamodb local"])
def table_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/leases.db", ""
    else:
        server = request.getfixturevalue("dynamodb_local")
        yield f"dynamodb://processes-{uuid.uuid4().hex[:8]}", server.endpoint_url


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"{what} took longer than {PATIENCE_SECONDS} s"
        time.sleep(0.1)


def owners(table: LeaseTable) -> set[str]:
    rows = table.scan_rows("processes", "busy", None, 1_000).rows
    return {worker_name(row.lease_owner) for row in rows if row.lease_owner}


@pytest.mark.timeout(600)
@pytest.mark.req("K-05", "K-07", "K-11", "K-25", "K-53", "O-02")
@pytest.mark.case("W-01", "W-02", "W-06", "W-09", "W-18", "L-06")
def test_order_survives_kills_and_frozen_workers(
    table_place: tuple[str, str], tmp_path: Path
) -> None:
    rng = random.Random(7)
    table = open_table(table_place[0], endpoint_url=table_place[1] or None)
    names = ["ada", "grace", "barbara", "frances"]
    with Service() as service:
        client = service.client("kinesis")
        client.create_stream(StreamName="busy", ShardCount=16)
        crew = Crew(tmp_path, ["busy", service.endpoint_url, *table_place])
        traffic = Traffic(client, "busy", KEYS, writers=4, pause_seconds=0.01)
        try:
            for name in names:
                crew.start(name)
            traffic.start()
            until(lambda: crew.seen() > 0, "the first delivery")
            for number in range(CHAOS_ROUNDS):
                victim = rng.choice(names)
                if number % 2:
                    crew.signal(victim, SIGKILL)
                    crew.processes[victim].wait(10)
                else:
                    crew.signal(victim, SIGSTOP)
                reshard_once(client, "busy", rng, most_open=18)
                written = traffic.count  # the others go on with the victim's shards
                until(lambda written=written: crew.seen() >= written, "fail-over")  # type: ignore[misc]
                crew.signal(victim, SIGCONT)
                if crew.processes[victim].poll() is not None:
                    crew.start(victim)
            traffic.stop()
            until(lambda: crew.seen() >= traffic.count, "reading the rest")
            until(lambda: owners(table) == set(names), "sharing among all four")
            assert crew.end(SIGTERM) == [0] * len(names)
        finally:
            traffic.end()
            crew.end(SIGKILL)
        crew.seen()
        checker = PromiseChecker()
        stream = connect("kinesis://busy", endpoint_url=service.endpoint_url)
        for shard in stream.list_shards():
            checker.shard(shard.id, shard.parents)
        traffic.tell(checker)
        tell(checker, crew.logs)
        verdict = checker.verdict().require()
        assert verdict.written == traffic.count
    assert owners(table) == set(), "every lease was given back"
