"""A command holds shards like a worker: fenced, alive, and given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardline.consumer.letters.held_shards import HeldShards
from shardline.core.leasing.rows import advanced, released
from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import SHARD_END
from shardline.errors import LeaseLost
from shardline.leases.port import Conflict
from tests.unit.consumer.letters.lease_rows import (
    APP,
    STREAM,
    after,
    lease_row,
    lease_table,
    rows_of,
)


@pytest.mark.case("W-02")
def test_the_owner_is_fenced_as_soon_as_its_shard_is_taken() -> None:
    row = lease_row("s-1", after(7))
    table = lease_table(row, lease_row("s-2"))
    with HeldShards(table, APP, STREAM) as held:
        held.take(["s-1"])
        assert (held.rows["s-1"].epoch, held.rows["s-1"].checkpoint) == (5, after(7))
        with pytest.raises(Conflict):
            table.swap_row(advanced(row, after(8)), row)
        (beat,) = table.read_heartbeats(APP, STREAM)
        assert (beat.worker, beat.held, beat.capacity) == (held.owner, 1, 1)
        assert rows_of(table)["s-2"].lease_owner == "worker-1"
        moves = table.read_header(APP, STREAM)
        assert moves is not None
        assert moves.moves > 1  # so that the owner looks at once
        held.require()
    assert rows_of(table)["s-1"].lease_owner is None
    assert rows_of(table)["s-1"].checkpoint == after(7)
    assert table.read_heartbeats(APP, STREAM) == ()


def test_a_child_is_taken_above_the_epochs_of_its_parents() -> None:
    parent = lease_row("s-1", SHARD_END, epoch=9)
    table = lease_table(parent, lease_row("s-2", parents=("s-1",), epoch=2))
    with HeldShards(table, APP, STREAM) as held:
        held.take(["s-2"])
        assert held.rows["s-2"].epoch == 10


def test_a_halted_shard_stays_halted() -> None:
    table = lease_table(replace(lease_row("s-1", owner=None), halted="ValueError"))
    with HeldShards(table, APP, STREAM) as held:
        held.take(["s-1"])
    assert rows_of(table)["s-1"].halted == "ValueError"


def test_the_heartbeat_is_renewed_while_the_shards_are_held() -> None:
    table = lease_table(lease_row("s-1"))
    with HeldShards(table, APP, STREAM, LeaseTimes(lease_seconds=0.03)) as held:
        held.take(["s-1"])
        while (beat := table.read_heartbeat(APP, STREAM, held.owner)) is None or beat.count < 4:
            pass
        held.require()


@pytest.mark.case("W-06")
def test_nothing_is_done_when_the_heartbeat_could_not_be_renewed() -> None:
    table = lease_table(lease_row("s-1"))
    with HeldShards(table, APP, STREAM, LeaseTimes(lease_seconds=0.0)) as held:
        with pytest.raises(LeaseLost, match="run it again"):
            held.require()
        held.take([])
        with pytest.raises(LeaseLost, match="run it again"):
            held.require()


def test_a_shard_that_another_worker_took_meanwhile_is_left_to_it() -> None:
    table = lease_table(lease_row("s-1"))
    with HeldShards(table, APP, STREAM) as held:
        held.take(["s-1"])
        mine = held.rows["s-1"]
        table.swap_row(replace(released(mine), lease_owner="worker-2", epoch=99), mine)
    assert rows_of(table)["s-1"].lease_owner == "worker-2"


def test_a_shard_that_was_completed_meanwhile_is_said() -> None:
    table = lease_table(lease_row("s-1", SHARD_END))
    with (
        HeldShards(table, APP, STREAM) as held,
        pytest.raises(LeaseLost, match="s-1 was completed"),
    ):
        held.take(["s-1"])
