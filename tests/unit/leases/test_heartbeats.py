"""Heartbeats depend on nothing but the table, and follow the row of the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardline.core.leasing.own_heartbeat import Summary
from shardline.core.leasing.runs import Run, RunState
from shardline.errors import ConfigurationError, ServiceUnreachable, Throttled
from tests.unit.leases.stage import BIRTH, SPACE, Notes, Stage

RUN = Run("app", "run-1", BIRTH, workers=2)


@pytest.mark.case("X-18")
@pytest.mark.parametrize("error", [Throttled("slow down"), ServiceUnreachable("no answer")])
def test_a_stream_that_refuses_to_list_costs_no_lease(error: Exception) -> None:
    stage, notes = Stage(shards=2), Notes()
    worker = stage.worker("a", work=notes)
    other = stage.worker("b")
    stage.let_pass(15)
    held = dict(worker.held())
    stage.listing.failing = error
    stage.let_pass(5 * stage.times.lease_seconds)
    assert dict(worker.held()) == held
    assert len(other.held()) == 1
    assert ("stop", min(held)) not in notes.words


@pytest.mark.case("X-18")
def test_a_heartbeat_is_renewed_while_a_listing_and_a_scan_hang() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    hanging = [worker.listing_steps(), worker.table_steps()]
    stage.now += 100  # a listing is due; whoever runs these two never answers their first call
    for steps in hanging:
        assert callable(next(steps))
    renewals = worker.renew_steps()
    beats = []
    step = next(renewals)
    for _ in range(40):
        answer = None
        if callable(step):
            answer = step()
        else:
            stage.now += step.seconds
        beats.append(stage.table.read_heartbeats(*SPACE)[0].count)
        step = renewals.send(answer)
    assert beats[-1] >= beats[0] + 4


def test_a_worker_takes_nothing_before_it_found_its_run_in_the_table() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a", run_id="run-1")
    worker.tick()
    assert worker.run_state() is RunState.MISSING
    with pytest.raises(ConfigurationError, match="run-1 of app 'app' is not in memory"):
        worker.held()
    assert stage.table.read_heartbeats(*SPACE) == ()
    assert all(row.lease_owner is None for row in stage.table._rows.get(SPACE, {}).values())


def test_a_task_of_a_stopped_run_takes_nothing() -> None:
    stage = Stage(shards=1)
    stage.table.write_run(RUN)
    stage.table.stop_run("app", "run-1")
    worker = stage.worker("late", run_id="run-1")
    stage.let_pass(20)
    assert worker.run_state() is RunState.STOPPING
    assert not worker.held()


def test_a_stop_is_seen_within_two_seconds_and_never_taken_back() -> None:
    stage = Stage(shards=1)
    stage.table.write_run(RUN)
    worker = stage.worker("a", run_id="run-1")
    stage.let_pass(3)
    assert worker.run_state() is RunState.RUNNING
    assert worker.held()
    stage.table.stop_run("app", "run-1")
    stage.let_pass(2)
    assert worker.run_state() is RunState.STOPPING
    stage.table._runs["app", "run-1"] = replace(RUN, renewed=9)
    stage.let_pass(2)
    assert worker.run_state() is RunState.STOPPING


def test_a_run_that_its_launcher_renews_no_more_ends_itself() -> None:
    stage = Stage(shards=1, abandon_seconds=30.0)
    stage.table.write_run(RUN)
    worker = stage.worker("a", run_id="run-1")
    for _ in range(4):
        stage.let_pass(20)
        assert worker.run_state() is RunState.RUNNING
        stage.table.write_run(RUN)
    stage.let_pass(33)
    assert worker.run_state() is RunState.ABANDONED


def test_a_heartbeat_carries_a_summary() -> None:
    stage = Stage(shards=1)
    worker = stage.worker("a")
    stage.let_pass(1)
    worker.summarize(Summary(1_200, 900, 90_000, retries=2, dead_letters=1))
    stage.let_pass(4)
    (beat,) = stage.table.read_heartbeats(*SPACE)
    assert (beat.held, beat.lag_ms, beat.records_per_second) == (1, 1_200, 900)
    assert (beat.bytes_per_second, beat.retries, beat.dead_letters) == (90_000, 2, 1)
