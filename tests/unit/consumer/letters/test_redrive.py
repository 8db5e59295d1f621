"""Letters are processed in order for each key, once, and keys are unparked when none is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.consumer import ShardBatch
from shardline.consumer.letters.folder import FolderOfLetters
from shardline.consumer.letters.held_shards import HeldShards
from shardline.consumer.letters.letter import Origin
from shardline.consumer.letters.redrive import Redrive, RedriveResult, holders_of
from shardline.core.fences import Fence
from shardline.core.positions import SHARD_END
from tests.unit.consumer.letters.lease_rows import (
    APP,
    STREAM,
    after,
    lease_row,
    lease_table,
    park,
    parked_keys,
    rows_of,
)
from tests.unit.consumer.letters.test_folder import letters_in, numbers_in
from tests.unit.consumer.shard_pages import Recorder, always, fences_rise, on, page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from shardline.core.leasing.rows import LeaseRow
    from shardline.leases.port import LeaseTable


@dataclass
class Situation:
    """A folder of letters, a lease table, and a consumer."""

    folder: Path
    table: LeaseTable
    consumers: list[Recorder] = field(default_factory=list)

    def write(self, shard_id: str, *records: tuple[str, int], parked: bool = True) -> None:
        box = FolderOfLetters(str(self.folder), Origin(APP, STREAM))
        box.write(ShardBatch(shard_id, Fence(4, 1), page(*records)), "odd", parked=parked)

    def redrive(
        self,
        *shard_ids: str,
        fails: Callable[[int, int], bool] = lambda *_: False,
        keys: set[str] | None = None,
        rows: dict[str, LeaseRow] | None = None,
    ) -> RedriveResult:
        def make() -> Recorder:
            self.consumers.append(Recorder(fails=fails))
            return self.consumers[-1]

        rows = rows or rows_of(self.table)
        box = FolderOfLetters(str(self.folder), Origin())
        with HeldShards(self.table, APP, STREAM) as held:
            held.take(holders_of(shard_ids, rows))
            work = Redrive(self.table, held, rows, box)
            return work.run(lambda: letters_in(self.folder), keys, make)

    @property
    def processed(self) -> list[int]:
        return [number for consumer in self.consumers for number in consumer.processed]


@pytest.mark.case("R-01")
def test_a_parked_key_is_processed_in_order_and_unparked(tmp_path: Path) -> None:
    row = lease_row("s-1", after(20))
    here = Situation(tmp_path, lease_table(row))
    park(here.table, row, "a", "letter 9")
    here.write("s-1", ("a", 9), ("a", 10))
    here.write("s-1", ("a", 11), ("b", 12), parked=False)
    result = here.redrive("s-1")
    assert result == RedriveResult(processed=4, unparked={"a"})
    assert here.processed == [9, 10, 11, 12]
    (consumer,) = here.consumers
    assert fences_rise([fence for fence, _ in consumer.tried])
    assert {fence.epoch for fence, _ in consumer.tried} == {5}
    assert numbers_in(tmp_path) == []
    assert parked_keys(here.table) == []


@pytest.mark.case("R-01")
def test_a_letter_that_fails_again_stays_and_the_later_ones_of_its_key_with_it(
    tmp_path: Path,
) -> None:
    row = lease_row("s-1", after(20))
    here = Situation(tmp_path, lease_table(row))
    for key in ("a", "b"):
        park(here.table, row, key, f"letter {key}")
    here.write("s-1", ("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5))
    result = here.redrive("s-1", fails=on(3))
    assert (result.processed, result.waiting, result.unparked) == (3, 2, {"b"})
    assert list(result.failed.values()) == ["ValueError: no 3\nplease"]
    assert here.processed == [1, 2, 4]
    assert numbers_in(tmp_path) == [3, 5]
    assert parked_keys(here.table) == [("s-1", "a")]
    assert here.redrive("s-1") == RedriveResult(processed=2, unparked={"a"})
    assert here.processed == [1, 2, 4, 3, 5]


@pytest.mark.case("R-01")
def test_a_letter_after_the_checkpoint_is_left_to_the_next_owner(tmp_path: Path) -> None:
    """Its record is delivered again: processing it here would deliver it twice, or too early."""
    row = lease_row("s-1", after(10))
    here = Situation(tmp_path, lease_table(row))
    park(here.table, row, "a", "letter 9")
    here.write("s-1", ("a", 9), ("a", 10), ("a", 11))
    here.write("s-1", ("b", 12), parked=False)
    assert here.redrive("s-1") == RedriveResult(processed=2, stale=2, unparked={"a"})
    assert here.processed == [9, 10]
    assert numbers_in(tmp_path) == []


@pytest.mark.case("R-01")
def test_a_letter_for_a_parked_key_that_is_not_parked_is_not_processed(tmp_path: Path) -> None:
    """A worker that had lost its lease wrote it; the record was delivered to the next one."""
    here = Situation(tmp_path, lease_table(lease_row("s-1", after(20))))
    here.write("s-1", ("a", 9))
    here.write("s-1", ("a", 10), parked=False)
    assert here.redrive("s-1") == RedriveResult(processed=1, stale=1)
    assert here.processed == [10]


@pytest.mark.case("R-01")
def test_a_key_is_redriven_through_a_split(tmp_path: Path) -> None:
    """Parked in the parent, inherited by the children, of which one has later letters."""
    parent = lease_row("s-1")
    table = lease_table(parent)
    here = Situation(tmp_path, table)
    park(table, parent, "a", "letter 9")
    table.swap_row(lease_row("s-1", SHARD_END), parent)
    for child in ("s-2", "s-3"):
        row = lease_row(child, after(40), parents=("s-1",), epoch=7)
        table.swap_row(row, None)
        park(table, row, "a", "letter 9")
    here.write("s-3", ("a", 30))
    here.write("s-1", ("a", 9))
    assert holders_of(["s-1", "s-3"], rows_of(table)) == {"s-2", "s-3"}
    assert here.redrive("s-1", "s-3") == RedriveResult(processed=2, unparked={"a"})
    assert here.processed == [9, 30]
    assert parked_keys(table) == []
    assert {fence.epoch for one in here.consumers for fence, _ in one.tried} == {8}


def test_letters_of_a_shard_that_was_not_chosen_are_left_alone(tmp_path: Path) -> None:
    rows = [lease_row("s-1", after(20)), lease_row("s-2", after(20))]
    here = Situation(tmp_path, lease_table(*rows))
    for row in rows:
        park(here.table, row, "a", "letter 1")
    here.write("s-1", ("a", 1), ("b", 2))
    here.write("s-2", ("a", 3), ("c", 30), parked=False)
    park(here.table, rows[0], "b", "letter 2")
    assert here.redrive("s-1") == RedriveResult(processed=1, unparked={"b"})
    assert numbers_in(tmp_path) == [1, 3, 30]
    assert parked_keys(here.table) == [("s-1", "a"), ("s-2", "a")]


def test_a_key_that_was_parked_in_another_shard_since_stays_parked(tmp_path: Path) -> None:
    rows = [lease_row("s-1", after(20)), lease_row("s-2", after(20))]
    here = Situation(tmp_path, lease_table(*rows))
    park(here.table, rows[1], "a", "letter 1")
    here.write("s-1", ("b", 1), parked=False)
    assert here.redrive("s-1") == RedriveResult(processed=1)
    assert parked_keys(here.table) == [("s-2", "a")]


def test_only_the_keys_that_were_named(tmp_path: Path) -> None:
    row = lease_row("s-1", after(20))
    here = Situation(tmp_path, lease_table(row))
    for key in ("a", "b"):
        park(here.table, row, key, f"letter {key}")
    here.write("s-1", ("a", 1), ("b", 2))
    assert here.redrive("s-1", keys={"b"}) == RedriveResult(processed=1, unparked={"b"})
    assert (numbers_in(tmp_path), parked_keys(here.table)) == ([1], [("s-1", "a")])


def test_a_key_without_letters_is_unparked_only_if_it_is_named(tmp_path: Path) -> None:
    """They may have expired; or an earlier redrive ended between the last letter and the key."""
    row = lease_row("s-1", after(20))
    here = Situation(tmp_path, lease_table(row))
    park(here.table, row, "a", "letter 1")
    assert here.redrive("s-1") == RedriveResult(without_letters={"a"})
    assert parked_keys(here.table) == [("s-1", "a")]
    assert here.redrive("s-1", keys={"a"}) == RedriveResult(unparked={"a"})


def test_a_shard_without_a_successor_needs_no_lease(tmp_path: Path) -> None:
    here = Situation(tmp_path, lease_table(lease_row("s-1", SHARD_END)))
    here.write("s-1", ("a", 1), parked=False)
    assert here.redrive("s-1") == RedriveResult(processed=1)
    assert here.redrive("s-1", fails=always) == RedriveResult()
