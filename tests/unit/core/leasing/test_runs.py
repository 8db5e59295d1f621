"""What a worker makes of the row of its run, on its own clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from shardline.core.leasing.runs import Run, RunObserver, RunState

RUN = Run("app", "run-1", datetime(2026, 1, 1, tzinfo=UTC))


def test_without_a_run_a_worker_always_runs() -> None:
    assert RunObserver(None, 60).state is RunState.RUNNING


def test_a_row_that_stands_still_is_abandoned_and_one_that_moves_is_not() -> None:
    observer = RunObserver("run-1", abandon_seconds=60)
    assert observer.state is RunState.UNKNOWN
    for now in range(0, 400, 50):
        observer.read(replace(RUN, renewed=now // 100), float(now))
        assert observer.state is RunState.RUNNING
    observer.read(replace(RUN, renewed=3), 411.0)
    assert observer.state is RunState.ABANDONED
    observer.read(replace(RUN, renewed=4), 412.0)
    assert observer.state is RunState.ABANDONED, "it has begun to end"


def test_a_missing_row_may_still_come() -> None:
    observer = RunObserver("run-1", abandon_seconds=60)
    observer.read(None, 1.0)
    assert observer.state is RunState.MISSING
    observer.read(replace(RUN, stopping=True), 2.0)
    assert observer.state is RunState.STOPPING
