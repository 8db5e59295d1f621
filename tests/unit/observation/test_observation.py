"""The reading of lease rows for an observation."""

from __future__ import annotations

from datetime import UTC, datetime

from shardline.core.leasing.rows import LeaseRow
from shardline.observation.observation import read_all_rows
from tests.twins.lease_table import MemoryLeaseTable


def test_all_pages_of_rows_are_read() -> None:
    table = MemoryLeaseTable()
    for number in range(2_500):
        table.swap_row(LeaseRow("app", "orders", f"s{number:05}", datetime.now(UTC)), None)
    assert len(read_all_rows(table, "app", "orders")) == 2_500
