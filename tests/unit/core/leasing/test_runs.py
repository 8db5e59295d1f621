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
    states = [observer.state]
    for now, renewed in ((0, 0), (50, 0), (100, 1), (150, 1), (161, 1), (162, 2)):
        observer.read(replace(RUN, renewed=renewed), float(now))
        states.append(observer.state)
    assert states == [
        RunState.UNKNOWN,
        *[RunState.RUNNING] * 4,
        RunState.ABANDONED,
        RunState.ABANDONED,  # it has begun to end
    ]


def test_a_missing_row_may_still_come() -> None:
    observer = RunObserver("run-1", abandon_seconds=60)
    states = []
    for run in (None, replace(RUN, stopping=True), RUN):
        observer.read(run, 1.0)
        states.append(observer.state)
    assert states == [RunState.MISSING, RunState.STOPPING, RunState.STOPPING]
