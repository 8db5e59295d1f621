"""What a worker makes of the answers to its writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.leases.stage import Notes, Stage

if TYPE_CHECKING:
    from shardline.core.leasing.rows import LeaseRow


@pytest.mark.req("K-06", "K-08", "K-33")
def test_a_lease_that_another_worker_took_first_starts_no_work() -> None:
    stage, notes = Stage(shards=1), Notes()
    worker = stage.worker("slow", work=notes)
    write = stage.table.swap_row
    taken: list[LeaseRow] = []

    def write_later(new: LeaseRow, expected: LeaseRow | None) -> None:
        if new.lease_owner is not None and not taken:
            taken.append(new)
            write(replace(new, lease_owner="fast"), expected)
        write(new, expected)

    stage.table.swap_row = write_later  # type: ignore[method-assign]
    stage.let_pass(1)
    assert taken
    assert stage.rows()["s0"].lease_owner == "fast"
    assert not worker.held()
    assert notes.words == []


def test_a_table_that_is_away_for_long_is_a_few_lines_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(shards=2)
    stage.worker("a")
    stage.let_pass(15)
    with stage.table_away():
        stage.let_pass(600)
    assert 10 <= len(caplog.records) <= 2 * 11  # heartbeats and rows, each once a minute
    assert "times in the minute before" in caplog.text
