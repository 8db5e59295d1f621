"""The tool that switches bugs on: what it counts as caught, and the table that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.aims import WORLDS
from tests.simulation.bugs import BUGS
from tests.simulation.failing_test import first_failure
from tests.simulation.mutants import files_of, results_of_planted_bugs, write_table
from tests.simulation.world import plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulation.bugs import Bug


def _bug(what: str) -> Bug:
    return next(bug for bug in BUGS if bug.what == what)


def test_a_bug_that_only_a_test_shows_is_known_by_the_name_of_the_test() -> None:
    name = "test_a_lost_lease_stops_deliveries_and_acknowledgements_and_is_told"
    test = f"tests/unit/consumer/test_pipeline.py::{name}"
    assert first_failure([test]) == ""
    with _bug("a lost lease is not told to the consumer").installed():
        assert first_failure([test]) == test


def test_the_files_of_a_case_come_first() -> None:
    assert files_of("X-37")[0].endswith("tests/unit/tables/test_models.py")


@pytest.mark.parametrize("what", WORLDS)
def test_every_aim_names_a_bug_and_finds_its_worlds(what: str) -> None:
    assert _bug(what) in BUGS
    _, fits = WORLDS[what]
    assert any(fits(plan_of(seed)) for seed in range(3000))


def test_the_table_has_a_row_for_every_bug_and_names_what_escaped(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- mutants -->\nold\n<!-- end of mutants -->\nafter\n")
    planted = results_of_planted_bugs("caught  X-28: leaving waits for a table that hangs\n")
    write_table(page, {("W-01", "a bug"): ("", ""), **planted})
    assert page.read_text() == (
        "before\n<!-- mutants -->\n| case | the bug that is switched on | caught by |\n"
        "|---|---|---|\n| W-01 | a bug | **escaped** |\n"
        "| X-28 | leaving waits for a table that hangs | `tests/unit/leases/test_coordinator.py` |"
        "\n<!-- end of mutants -->\nafter\n"
    )
