"""What a worker makes of the row of its run, on its own clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shardline.core.leasing.runs import OldRuns, Run, RunObserver, RunState

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


def test_a_run_is_over_when_it_began_days_ago_and_its_row_stood_still() -> None:
    today = RUN.created_at + timedelta(days=4)
    old, alive = RUN, replace(RUN, run_id="alive")
    fresh = replace(RUN, run_id="fresh", created_at=today - timedelta(days=2), stopping=True)
    mine = replace(RUN, run_id="mine")
    observer = OldRuns("mine", abandon_seconds=60)
    over = []
    for now in (0, 60, 120, 180):
        rows = [old, replace(alive, renewed=now), fresh, mine]
        over.append([run.run_id for run in observer.observe(rows, float(now), today)])
    assert over == [[], [], [], ["run-1"]]


def test_a_run_whose_row_moves_again_is_not_over() -> None:
    today = RUN.created_at + timedelta(days=4)
    observer = OldRuns("mine", abandon_seconds=60)
    over = [
        observer.observe([replace(RUN, renewed=renewed)], float(now), today)
        for now, renewed in ((0, 1), (100, 2), (200, 2), (221, 2))
    ]
    assert over == [[], [], [], [replace(RUN, renewed=2)]]
