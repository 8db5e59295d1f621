"""The launcher of a run: what it does with the rows of runs, its own and those of others."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from shardline.consumer import launch
from shardline.consumer.job import Job, LeasePlace, StreamSource
from shardline.consumer.launch import RunningConsumer
from shardline.core.leasing.runs import Run
from shardline.core.leasing.times import LeaseTimes
from shardline.leases.address import open_table

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_rows_of_runs_that_are_long_over_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_RENEW_SECONDS", 0.01)
    monkeypatch.setattr(launch, "_OLD_RUNS_SECONDS", 0.0)
    address = f"sqlite:///{tmp_path}/leases.db"
    table = open_table(address)
    table.prepare()
    today = datetime.now(UTC)
    for name, days in (("old", 9), ("recent", 1)):
        table.write_run(Run("app", name, today - timedelta(days=days)))
    streams = (StreamSource("kinesis://orders"),)
    times = LeaseTimes(abandon_seconds=0.05)
    job = Job(streams, "app", LeasePlace(address), b"", times=times, run_id="mine")
    running = RunningConsumer(job, 0, lambda *_: None)
    deadline = time.monotonic() + 60
    while len(table.read_runs("app")) > 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {run.run_id for run in table.read_runs("app")} == {"mine", "recent"}
    running.stop(0)
    table.close()
