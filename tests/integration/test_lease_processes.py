"""Four worker processes are killed and frozen by chance while shards split and merge.

At its end the test prints how long that was felt: `pytest -s` shows it.
"""

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

from shardline.cli.demo.workers import Log
from shardline.core.leasing.rows import worker_name
from shardline.core.promise import PromiseChecker
from shardline.leases.address import open_table
from shardline.local import Service
from shardline.local.traffic import Traffic, reshard_once
from shardline.services.access import Access
from shardline.services.connection import connect
from tests.integration.lease_history import History, Standstill, Strike, distribution
from tests.integration.lease_places import EVERY_TABLE
from tests.integration.lease_worker import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from shardline.leases.port import LeaseTable

KEYS = [f"key-{n}" for n in range(60)]
CHAOS_SECONDS = 40.0
KILL, FREEZE = "kill -9", "freeze"
LONGEST_FREEZE_SECONDS = 20.0
"""Whoever is frozen with SQLite's lock in hand stops all others: nobody can take it away."""
PATIENCE_SECONDS = 240


class Crew:
    """The workers that are meant to run, and the logs of all that ever ran."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self._folder, self._arguments = folder, arguments
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: list[Log] = []
        self.strikes: list[Strike] = []
        self.standstills: list[Standstill] = []
        self._log_of: dict[str, Log] = {}

    def start(self, name: str) -> None:
        path = self._folder / f"{name}-{len(self.logs)}.jsonl"
        self._log_of[name] = Log(path, f"{name}-{len(self.logs)}")
        self.logs.append(self._log_of[name])
        self.processes[name] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.integration.lease_worker", name),
                *(*self._arguments, str(path)),
            ],
        )

    def strike(self, name: str, kind: str) -> None:
        self.strikes.append(Strike(time.time(), kind, self._log_of[name].owner))
        self.signal(name, SIGKILL if kind == KILL else SIGSTOP)
        if kind == KILL:
            self.processes[name].wait(10)

    def stands_still(self) -> bool:
        """Say whether a worker froze so long ago that the others would go on if they could."""
        last, now = self.strikes[-1], time.time()
        still = last.kind == FREEZE and now - last.at > LONGEST_FREEZE_SECONDS
        if still:
            self.standstills.append(Standstill(last.at, now))
        return still

    def signal(self, name: str, number: Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.processes[name].pid, number)

    def seen(self) -> int:
        for log in self.logs:
            log.read_on()
        delivered = (x for log in self.logs for x in log.lines if x.what == "delivered")
        return len({(line.shard_id, record) for line in delivered for record in line.records})

    def end(self, number: Signals) -> list[int]:
        for name in self.processes:
            self.signal(name, number)
        return [process.wait(60) for process in self.processes.values()]


@pytest.fixture(params=["sqlite", "dynamodb local"] if EVERY_TABLE else ["sqlite"])
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
    return {row.lease_owner for row in rows if row.lease_owner}


def names_of(owners: set[str]) -> set[str]:
    return {worker_name(owner) for owner in owners}


@pytest.mark.timeout(600)
@pytest.mark.req("K-05", "K-07", "K-11", "K-25", "K-53", "O-02")
@pytest.mark.case("W-01", "W-02", "W-06", "W-09", "W-18", "L-06")
def test_order_survives_kills_and_frozen_workers(
    table_place: tuple[str, str], tmp_path: Path
) -> None:
    rng = random.Random(7)
    table = open_table(table_place[0], Access(endpoint_url=table_place[1] or None))
    names = ["ada", "grace", "barbara", "frances"]
    with Service(strict=True, status_delay_seconds=0) as service:
        client = service.client("kinesis")
        client.create_stream(StreamName="busy", ShardCount=16)
        crew = Crew(tmp_path, ["busy", service.endpoint_url, *table_place])
        traffic = Traffic(client, "busy", KEYS, writers=4, pause_seconds=0.01)
        try:
            for name in names:
                crew.start(name)
            traffic.start()
            until(lambda: crew.seen() > 0, "the first delivery")
            began = time.monotonic()
            while time.monotonic() < began + CHAOS_SECONDS:
                victim = rng.choice(names)
                struck = {owner for owner in owners(table) if worker_name(owner) == victim}
                crew.strike(victim, KILL if len(crew.strikes) % 2 else FREEZE)
                reshard_once(client, "busy", rng, most_open=18)
                written = traffic.count  # the others go on with the victim's shards
                until(lambda: not struck & owners(table) or crew.stands_still(), "fail-over")  # noqa: B023
                crew.signal(victim, SIGCONT)
                until(lambda: crew.seen() >= written, "going on")  # noqa: B023
                if crew.processes[victim].poll() is not None:
                    crew.start(victim)
            traffic.stop()
            until(lambda: crew.seen() >= traffic.count, "reading the rest")
            until(lambda: names_of(owners(table)) == set(names), "sharing among all four")
            assert crew.end(SIGTERM) == [0] * len(names)
        finally:
            traffic.end()
            crew.end(SIGKILL)
        crew.seen()
        history = History(crew.logs)
        checker = PromiseChecker()
        stream = connect("kinesis://busy", Access(endpoint_url=service.endpoint_url))
        for shard in stream.list_shards():
            checker.shard(shard.id, shard.parents)
        traffic.report_to(checker)
        history.tell(checker)
        verdict = checker.verdict().require()
        assert verdict.written == traffic.count
        assert history.repeats_without_a_reason() == []
        print(  # noqa: T201 - seen with -rP or -s
            f"\n{table_place[0].partition(':')[0]}, leases of {LEASE_SECONDS:.0f} s, "
            f"{len(crew.strikes)} strikes in {CHAOS_SECONDS:.0f} s: {verdict.delivered} delivered, "
            f"{verdict.lost} lost, {verdict.repeated} repeated, {verdict.stale} stale",
            *(
                distribution(
                    f"fail-over after a {kind}",
                    history.failover_seconds(crew.strikes, kind, crew.standstills),
                )
                for kind in (KILL, FREEZE)
            ),
            distribution("hand-over, asked to first read", history.handover_seconds()),
            f"frozen with the table's lock in hand: {len(crew.standstills)} times",
            sep="\n",
        )
    assert owners(table) == set(), "every lease was given back"
