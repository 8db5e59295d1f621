"""Random lives of a query; many more by `python -m tests.property.source_histories`."""

from __future__ import annotations

import sys
from datetime import timedelta
from random import Random

import pytest

from shardline.core.planning.events import Asked
from tests.property import source_histories
from tests.property.hard_streams import HardWorld
from tests.property.planning_query import KEYS, Crash, Query, World
from tests.property.source_histories import live
from tests.twins.kinesis import EPOCH, KinesisTwin


@pytest.mark.req("K-02", "O-02", "O-03", "O-15")
@pytest.mark.case("X-01", "X-02", "X-07", "X-11", "X-15", "R-10", "R-13")
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_lives_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 10):
        assert live(seed).failure is None, f"seed {seed}"


@pytest.mark.parametrize(
    "seed",
    [1203, 2010, 434878578288, 208936399330, 208936405497, 727176559732, 54679664681, 54679665504],
)
def test_lives_that_once_broke_a_promise_keep_it(seed: int) -> None:
    assert live(seed).failure is None


@pytest.mark.parametrize("calls", range(3))
def test_a_driver_that_is_gone_makes_no_further_step(calls: int) -> None:
    world = HardWorld(World(KinesisTwin(1)), Random(0))
    query = Query(world)
    query._post(Asked(query.committed(), 1000))
    world.hard.crash_in = calls

    def turns_until_the_crash() -> None:
        while world.hard.crash_in is not None:
            query.turn()

    with pytest.raises(Crash):
        turns_until_the_crash()


@pytest.mark.parametrize("recorded", [False, True])
def test_a_gap_covers_ancestors_that_no_offset_names(recorded: bool) -> None:
    world = HardWorld(World(KinesisTwin(1)), Random(0))
    world.inner.split(0)
    world.hard.list_shards()  # to a driver that is gone before it writes them down
    for key in KEYS:
        world.inner.put(key)
    child, other = sorted(world.arrived)
    world.inner.split(0)
    grandchild = next(s for s in world.hard.list_shards() if s.parents == (child,))
    if recorded:
        world.recorded |= {child, other}
    world.excuse(grandchild.id, EPOCH, EPOCH + timedelta(hours=6))
    in_gaps = 0 if recorded else len(world.arrived[child])
    assert world.checker.verdict().in_gaps == in_gaps


def test_an_error_of_the_harness_is_a_failing_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(run: source_histories._Run) -> None:
        if run.query.commits:
            raise Crash

    monkeypatch.setattr(source_histories._Run, "finish", breaks)
    monkeypatch.setattr(sys, "argv", ["histories", "--first", "3", "--seeds", "4", "--keep-going"])
    assert source_histories.main() == 1
    assert "4 seeds, 4 failed, the last 6" in capsys.readouterr().out
