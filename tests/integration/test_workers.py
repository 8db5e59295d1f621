"""Workers as users run them, without Spark: shared, killed, frozen, stopped, and hung."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from shardline.local.traffic import reshard_once
from tests.integration.lease_places import TABLES, lease_place, on_tables
from tests.integration.worker_runs import CALM, LEASE_SECONDS, Run, Stage, stage_on, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stage(table: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    server_of = request.getfixturevalue
    with lease_place(table, tmp_path, server_of) as place, stage_on(tmp_path, place) as made:
        yield made


def judged(stage: Stage) -> int:
    """Wait until everything written was delivered, judge it, and return the repeats."""
    stage.end_traffic()
    wait_until(stage.caught_up, "everything was delivered")
    return stage.verdict().require().repeated


def two_at_work(stage: Stage, *more: str) -> tuple[Run, Run]:
    """Return two workers that share a stream that is written to."""
    stage.write()
    ada, grace = stage.start("ada", *more), stage.start("grace", *more)
    wait_until(lambda: min(ada.delivered(), grace.delivered()) > 100, "both deliver")
    return ada, grace


def freeze(run: Run, stage: Stage, whom: str) -> float:
    """Freeze a keeper, or also its runner, while it holds no lock; return when that was.

    A process that sleeps with SQLite's lock in hand stops all others, and nobody can help it.
    """
    while True:
        struck_at = time.time()
        if whom == "both":
            run.signal_all(signal.SIGSTOP)
        else:
            os.kill(run.process.pid, signal.SIGSTOP)
        if not stage.place.locked():
            return struck_at
        run.signal_all(signal.SIGCONT)


@on_tables("sqlite")
@pytest.mark.req("K-05", "K-07", "K-53", "O-01", "O-14")
def test_two_workers_share_a_stream_that_splits_and_merges(stage: Stage) -> None:
    two_at_work(stage, *CALM)
    rng = random.Random(3)
    for _ in range(4):
        reshard_once(stage.client, "orders", rng)
    assert judged(stage) == 0


@on_tables("sqlite")
@pytest.mark.case("W-18")
@pytest.mark.req("K-51")
def test_a_stop_hands_over_at_once_and_nothing_is_repeated(stage: Stage) -> None:
    ada, grace = two_at_work(stage, *CALM)
    assert ada.end() == 0
    assert "every lease handed back" in ada.output
    stopped_at = time.time()
    wait_until(lambda: len(grace.shards_since(stopped_at)) == 4, "grace has every shard")
    assert judged(stage) == 0


@on_tables("sqlite")
@pytest.mark.req("K-10", "K-11")
def test_the_runner_of_a_keeper_that_is_killed_ends_with_it(stage: Stage) -> None:
    ada, grace = two_at_work(stage)
    runners = ada.children()
    struck_at = time.time()
    os.kill(ada.process.pid, signal.SIGKILL)
    ada.process.wait()
    wait_until(lambda: not any(_alive(pid) for pid in runners), "its runner ends with it")
    wait_until(lambda: len(grace.shards_since(struck_at)) == 4, "grace has every shard")
    judged(stage)


@on_tables(*TABLES)
@pytest.mark.req("K-10", "K-11")
@pytest.mark.case("W-01")
def test_a_worker_that_is_killed_loses_its_shards_and_no_record(stage: Stage) -> None:
    ada, grace = two_at_work(stage)
    struck_at = time.time()
    ada.kill_all()
    wait_until(lambda: len(grace.shards_since(struck_at)) == 4, "grace has every shard")
    judged(stage)


@on_tables(*TABLES)
@pytest.mark.req("K-11")
@pytest.mark.case("W-01", "W-06")
@pytest.mark.parametrize("whom", ["keeper", "both"])
def test_a_worker_that_freezes_for_three_leases_loses_its_shards_and_no_record(
    stage: Stage, whom: str
) -> None:
    ada, grace = two_at_work(stage)
    struck_at = freeze(ada, stage, whom)
    wait_until(lambda: len(grace.shards_since(struck_at)) == 4, "grace has every shard")
    time.sleep(2 * LEASE_SECONDS)  # it sleeps past its leases: that is what is tested
    ada.signal_all(signal.SIGCONT)
    woken_at = time.time()
    wait_until(lambda: bool(ada.shards_since(woken_at)), "ada is back in its share")
    judged(stage)


@on_tables(*TABLES)
@pytest.mark.req("K-11")
@pytest.mark.case("W-05", "W-06")
def test_a_table_that_is_away_for_three_leases_costs_time_and_no_record(stage: Stage) -> None:
    ada, grace = two_at_work(stage)
    with stage.place.away():
        time.sleep(3 * LEASE_SECONDS)  # no lease is valid any more: that is what is tested
        silent_since = time.time()
        time.sleep(LEASE_SECONDS)
        assert not ada.shards_since(silent_since) | grace.shards_since(silent_since)
    back_at = time.time()
    wait_until(lambda: min(len(r.shards_since(back_at)) for r in (ada, grace)) > 1, "both go on")
    judged(stage)


@on_tables("sqlite")
@pytest.mark.req("K-14", "K-25")
def test_a_runner_that_is_killed_is_replaced_without_a_hand(stage: Stage) -> None:
    stage.write()
    ada = stage.start("ada")
    wait_until(lambda: ada.delivered() > 100, "it delivers")
    (runner,) = ada.children()
    os.kill(runner, signal.SIGKILL)
    killed_at = time.time()
    wait_until(lambda: len(ada.shards_since(killed_at)) == 4, "all shards are read on")
    assert "the process that runs the consumer died" in ada.output
    judged(stage)


@on_tables("sqlite")
@pytest.mark.req("K-26", "P-04")
@pytest.mark.case("X-30", "X-34")
def test_a_consumer_that_hangs_is_abandoned_and_its_shard_goes_to_another(stage: Stage) -> None:
    stage.write()
    ada = stage.start("ada", "--stall-seconds", "4")
    wait_until(lambda: ada.delivered() > 100, "it delivers")
    hung = ada.log.lines[-1].shard_id
    (stage.folder / "hang").write_text(hung)
    hung_at = time.time() + 1
    wait_until(lambda: len(ada.shards_since(hung_at) - {hung}) == 3, "the others are read on")
    wait_until(lambda: "did not return" in ada.output, "it is abandoned, and that is said")
    grace = stage.start("grace")
    wait_until(lambda: hung in grace.started(), "another worker has taken the shard")
    (stage.folder / "hang").unlink()  # not before: ada may take it again
    wait_until(lambda: hung in grace.shards_since(hung_at), "another worker delivers it")
    judged(stage)


@on_tables("sqlite")
@pytest.mark.req("K-16", "K-19")
@pytest.mark.case("X-33", "X-10")
def test_a_worker_says_what_it_starts_from_and_that_there_is_nothing_to_do(stage: Stage) -> None:
    ada = stage.start("ada")
    wait_until(lambda: "4 shards" in ada.output, "it says that it holds the shards")
    assert re.search(r"new app.*billing|without this app", ada.output)
    grace = stage.start("grace", "--expect-app")
    wait_until(lambda: "2 shards" in grace.output, "the second one has its share")
    missing = subprocess.run(
        [
            *(sys.executable, "-m", "shardline", "run", "shardline.cli.demo.recorder:Recorder"),
            *("--stream", "kinesis://orders", "--app", "bilking", "--engine", "process"),
            *("--lease-table", stage.place.address, "--expect-app"),
            *("--endpoint-url", stage.service.endpoint_url),
        ],
        cwd=stage.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert missing.returncode != 0
    assert "bilking" in missing.stderr


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
