"""A disk without room: said in one line, nothing acknowledged is lost, and it goes on afterwards.

A limit on the size of files stands for the full disk: writes fail with EFBIG instead of ENOSPC,
after as many bytes as there is room for.
"""

from __future__ import annotations

import resource
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.consumer import ShardBatch
from shardline.consumer.letters.folder import FolderOfLetters, lines_in
from shardline.consumer.letters.letter import Assembly, Origin
from shardline.core.fences import Fence
from shardline.core.leasing.rows import LeaseRow
from shardline.leases.port import TableUnavailable
from shardline.leases.sql import SqlLeaseTable
from tests.integration.worker_runs import stage_on, wait_until
from tests.unit.consumer.shard_pages import SHARD, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CREATED = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)
NOBODY = 0


@contextmanager
def full_disk(pid: int = NOBODY, room_bytes: int = 0) -> Iterator[None]:
    """Let a process write nothing above so many bytes into any file; this process by default."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (room_bytes, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_a_lease_table_without_room_keeps_what_it_acknowledged_and_goes_on(tmp_path: Path) -> None:
    table = SqlLeaseTable(f"sqlite:///{tmp_path}/leases.db", wait_seconds=1)
    table.prepare()
    row = LeaseRow("app", "orders", "s0", CREATED)
    table.swap_row(row, None)
    with full_disk():
        with pytest.raises(TableUnavailable) as refused:
            table.swap_row(LeaseRow("app", "orders", "s1", CREATED), None)
        assert "\n" not in str(refused.value)
        assert table.read_rows("app", "orders", ["s0", "s1"]) == {"s0": row}
    table.swap_row(LeaseRow("app", "orders", "s1", CREATED), None)
    assert set(table.read_rows("app", "orders", ["s0", "s1"])) == {"s0", "s1"}
    table.close()


@pytest.mark.parametrize("room_bytes", [0, 700, 1000])
@pytest.mark.case("R-01", "X-19")
def test_dead_letters_without_room_are_refused_and_no_other_letter_is_damaged(
    tmp_path: Path, room_bytes: int
) -> None:
    place = FolderOfLetters(str(tmp_path / "letters"), Origin("billing", "orders"))

    def write(number: int) -> None:
        place.write(ShardBatch(SHARD, Fence(1, number), page(("a", number))), "ValueError: bad")

    write(1)

    def write_many() -> None:
        for number in range(2, 9):
            write(number)

    with full_disk(room_bytes=room_bytes), pytest.raises(OSError, match="File too large"):
        write_many()
    write(9)
    assembly = Assembly()
    for path in (tmp_path / "letters").iterdir():
        for line in lines_in(path):
            assembly.add(line)
    numbers = [int(letter.sequence_number) for letter in assembly.letters()]
    assert numbers[0] == 1
    assert numbers[-1] == 9
    assert numbers == sorted(set(numbers))


def test_a_worker_whose_disk_is_full_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with stage_on(tmp_path, shards=2) as stage:
        stage.write(keys=10, pause_seconds=0.02)
        run = stage.start("ada", "--checkpoint-seconds", "0")
        wait_until(lambda: run.delivered() > 20, "it delivers")
        with full_disk(run.process.pid):
            time.sleep(2)  # lines of status, renewals and checkpoints fail: that is what is tested
            assert run.process.poll() is None
        back_at = time.time()
        wait_until(lambda: len(run.shards_since(back_at)) == 2, "it goes on")
        stage.end_traffic()
        wait_until(stage.caught_up, "everything was delivered")
        stage.verdict().require()
        assert run.end() == 0
