"""The coordinator in its own thread, on the real clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from shardline.core.leasing.times import LeaseTimes
from shardline.leases.coordinator import Coordinator
from tests.unit.leases.stage import SPACE, Stage, after

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.req("K-14", "K-27", "K-31")
@pytest.mark.case("W-18")
def test_a_thread_takes_leases_and_leaving_hands_them_over() -> None:
    stage = Stage(shards=3)
    times = LeaseTimes(lease_seconds=5.0)
    first, second = (
        Coordinator(stage.table, stage.listing, *SPACE, name, times=times)  # type: ignore[arg-type]
        for name in ("a", "b")
    )
    first.start()
    try:
        _wait_for(lambda: len(first.held()) == 3)
        shard_id, lease = next(iter(first.held().items()))
        first.checkpoint(shard_id, lease.epoch, after(7))
        second.start()
        first.leave()
        assert not first.held()
        _wait_for(lambda: len(second.held()) == 3)
        assert second.held()[shard_id].checkpoint == after(7)
    finally:
        first.leave()
        second.leave()
    assert stage.table.read_heartbeats(*SPACE) == ()


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for a minute in vain"
        time.sleep(0.02)
