"""Some of the schedules of a small world; `python -m tests.simulation.small_scopes` runs all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.simulation.small_scopes import FATES, pairs_of_faults, run, single_faults

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.case("W-04", "W-05", "W-06")
def test_a_small_world_survives_a_fault_at_any_call() -> None:
    whole = run({})
    assert not whole.failure
    scripts = list(single_faults(whole.calls, step=97))
    assert {fate for script in scripts for fate in script.values()} == set(FATES)
    results = {str(script): run(script) for script in scripts}
    assert {s: r.failure for s, r in results.items() if r.failure} == {}
    assert len({result.digest for result in results.values()}) > len(results) / 2


def test_a_small_world_survives_two_faults() -> None:
    scripts = list(pairs_of_faults(run({}).calls, 6, seed=2))
    assert [s for s in scripts if run(s).failure] == []


FOUND = ({103: "kill runner"},)
"""Schedules that failed once: a hand-over that was decided on while there was no runner."""


@pytest.mark.parametrize("script", FOUND)
def test_a_schedule_that_failed_once_is_survived(script: dict[int, str]) -> None:
    assert not run(script).failure
