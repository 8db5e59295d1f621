"""What the tests of workers begin with: a stream that is written to, and two that share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.lease_places import lease_place
from tests.integration.worker_runs import Run, Stage, stage_on, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stage(table: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    server_of = request.getfixturevalue
    with lease_place(table, tmp_path, server_of) as place, stage_on(tmp_path, place) as made:
        yield made


def judged(stage: Stage) -> int:
    """Wait until everything written was delivered, judge it, and return the repeats."""
    stage.end_traffic()
    wait_until(stage.caught_up, "everything was delivered")
    return stage.verdict().require().repeated


def two_at_work(stage: Stage, *more: str) -> tuple[Run, Run]:
    """Return two workers that share a stream that is written to."""
    stage.write()
    ada, grace = stage.start("ada", *more), stage.start("grace", *more)
    wait_until(lambda: min(ada.delivered(), grace.delivered()) > 100, "both deliver")
    return ada, grace
