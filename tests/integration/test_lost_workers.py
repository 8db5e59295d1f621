"""Workers that are killed or frozen, and workers whose lease table is away, on each lease table."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.lease_places import TABLES, on_tables
from tests.integration.worker_runs import LEASE_SECONDS, wait_until
from tests.integration.worker_stage import judged, stage, two_at_work

if TYPE_CHECKING:
    from tests.integration.worker_runs import Run, Stage

__all__ = ["stage"]


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
