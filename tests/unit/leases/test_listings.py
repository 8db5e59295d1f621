"""When the stream is described and listed, and what a listing decides."""

from __future__ import annotations

import pytest

from shardline.core.shards import Shard
from tests.unit.leases.stage import Notes, Stage, after


@pytest.mark.case("X-32", "X-33")
@pytest.mark.req("K-16", "K-19")
def test_a_stream_that_is_being_created_is_waited_for_and_said() -> None:
    stage = Stage(shards=1)
    stage.listing.active = False
    worker = stage.worker("a")
    assert worker.status() == "starting"
    stage.let_pass(5)
    assert worker.status() == "waiting for the stream: orders is not active yet"
    assert not worker.held()
    stage.listing.active = True
    stage.let_pass(3)
    assert worker.status() == "working on 1 shard"


@pytest.mark.case("X-33")
@pytest.mark.req("K-16")
def test_a_worker_without_a_shard_says_that_there_is_nothing_to_do() -> None:
    stage = Stage(shards=1)
    stage.worker("a")
    stage.let_pass(1)
    idle = stage.worker("b")
    stage.let_pass(15)
    assert idle.status().startswith("nothing to do")


@pytest.mark.case("X-09")
@pytest.mark.req("K-47")
def test_an_end_is_believed_only_after_a_listing_that_shows_the_shard_closed() -> None:
    stage, notes = Stage(shards=1), Notes()
    worker = stage.worker("a", work=notes)
    stage.let_pass(1)
    epoch = worker.held()["s0"].epoch
    worker.checkpoint("s0", epoch, after(5))
    worker.complete("s0", epoch)  # an answer without records was taken for the end
    stage.let_pass(10)
    assert not stage.rows()["s0"].completed
    stage.let_pass(7 * stage.times.lease_seconds)
    lease = worker.held()["s0"]
    assert (lease.epoch, lease.checkpoint) == (epoch + 1, after(5)), "it is read on"
    stage.listing.split("s0", "child")
    worker.complete("s0", lease.epoch)
    stage.let_pass(3)
    assert stage.rows()["s0"].completed
    assert worker.held().keys() == {"child"}


@pytest.mark.req("O-14", "K-53")
def test_whoever_completes_a_shard_lists_and_takes_its_children_at_once() -> None:
    stage = Stage(shards=6)
    workers = [stage.worker(f"w{i}") for i in range(3)]
    stage.let_pass(30)
    ender = workers[1]
    shard_id = min(ender.held())
    stage.listing.split(shard_id, "c1", "c2")
    ender.complete(shard_id, ender.held()[shard_id].epoch)
    stage.let_pass(3)
    assert {"c1", "c2"} <= ender.held().keys()


@pytest.mark.case("Y-07")
def test_a_fleet_lists_as_often_as_two_workers_would() -> None:
    calls = {}
    for workers in (2, 12):
        stage = Stage(shards=24)
        for i in range(workers):
            stage.worker(f"w{i}")
        stage.let_pass(60)
        stage.listing.listings = 0
        stage.let_pass(240)
        calls[workers] = stage.listing.listings
    assert calls[12] <= 2 * 240 / 10 + 12
    assert calls[12] <= 1.5 * calls[2]


def test_a_shard_that_another_worker_found_is_known_by_its_row() -> None:
    stage = Stage(shards=8)
    workers = [stage.worker(f"w{i}") for i in range(8)]
    stage.let_pass(12)
    stage.listing.shards += (Shard("new"),)
    stage.let_pass(40)
    (owner,) = (w for w in workers if "new" in w.held())
    others = [w for w in workers if w is not owner]
    assert all("new" in w.state.ledger.leasable for w in others)
    assert any("new" not in w.state.ledger.listing.shards for w in others), "not all have listed"
