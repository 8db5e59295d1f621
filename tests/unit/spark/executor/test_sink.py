"""Whether a lease is still held, as a task asks it: seldom, and never taking silence for a no."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shardline.core.leasing.rows import LeaseRow, released, taken
from shardline.leases.memory import MemoryLeaseTable
from shardline.leases.port import TableUnavailable
from shardline.spark.executor import sink
from shardline.spark.options import Connection, LeaseOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

OPTIONS = LeaseOptions("billing", Connection("sqlite:///leases.db"), "ada", 10)
ROW = LeaseRow("billing", "orders", "a", datetime(2026, 11, 15, tzinfo=UTC))


class Table(MemoryLeaseTable):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.silent = 0

    def read_rows(
        self, app_name: str, stream_name: str, shard_ids: Collection[str]
    ) -> Mapping[str, LeaseRow]:
        self.asked += 1
        if self.silent:
            self.silent -= 1
            raise TableUnavailable("nobody there")
        return super().read_rows(app_name, stream_name, shard_ids)


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(sink, "time", found)
    return found


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    found = Table()
    monkeypatch.setattr(sink, "_table", lambda _: found)
    sink._good_until.clear()
    found.swap_row(ROW, None)
    found.swap_row(taken(ROW, "ada/1"), ROW)
    return found


def held(epoch: int = 1) -> bool:
    return sink._still_held(OPTIONS, "orders", "a", epoch)


@pytest.mark.case("W-01", "W-02")
def test_a_yes_is_good_for_a_tenth_of_the_lease_time_and_a_no_for_ever(
    table: Table, time: Time
) -> None:
    assert [held() for _ in range(5)] == [True] * 5
    assert table.asked == 1
    mine = taken(ROW, "ada/1")
    table.swap_row(taken(mine, "grace/1"), mine)
    time.now += 1.1  # or a freeze of any length
    assert not held()
    assert not held()
    assert held(epoch=2)


@pytest.mark.case("W-02")
@pytest.mark.parametrize("change", ["given back", "gone"])
def test_a_lease_that_was_given_back_or_deleted_is_not_held(
    change: str, table: Table, time: Time
) -> None:
    mine = taken(ROW, "ada/1")
    if change == "gone":
        table.delete_row(mine)
    else:
        table.swap_row(released(mine), mine)
    assert not held()


def test_silence_is_no_answer(table: Table, time: Time) -> None:
    table.silent = 3
    assert held()
    table.silent = 1000
    time.now += 5
    with pytest.raises(TableUnavailable):
        held()
    assert 110 <= time.now <= 120


def test_without_leases_everything_is_ours(table: Table) -> None:
    assert sink._still_held(None, "orders", "a", 7)
    assert replace(OPTIONS) == OPTIONS  # a key of what is remembered
    assert table.asked == 0
