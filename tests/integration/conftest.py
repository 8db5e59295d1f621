"""An embedded service whose clock the test advances; and the order of the files of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from shardline.local import Clock, Service
from tests.integration.kinesis_calls import START

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_FIRST: Final = (
    "test_lost_workers.py",
    "test_table_relays.py",
    "test_relays.py",
    "test_workers.py",
    "test_engine.py",
    "test_lease_processes.py",
    "test_local_file.py",
    "test_ends.py",
    "test_snapshots.py",
    "test_lease_exchange.py",
    "test_streams.py",
    "test_snapshot_workers.py",
    "test_fan_out.py",
)
"""A file is run by one process: begun last, a long one would keep it busy alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; `--no-loadscope-reorder` keeps this order."""
    here = Path(__file__).parent
    rank = {here / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture
def service() -> Iterator[Service]:
    # Not strict: its clock stands still, and a stream would never be active.
    with Service(clock=Clock(START)) as service:
        yield service
