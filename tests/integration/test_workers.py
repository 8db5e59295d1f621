"""Workers as users run them, without Spark: shared, stopped, killed in part, and hung."""

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
from tests.integration.lease_places import on_tables
from tests.integration.worker_runs import CALM, wait_until
from tests.integration.worker_stage import judged, stage, two_at_work

if TYPE_CHECKING:
    from tests.integration.worker_runs import Stage

__all__ = ["stage"]


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
