"""The list of requirements, and the tool that says which of them no test proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.coverage_of_requirements import Mark, Requirement, find_marks, read_requirements, report

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest
pytestmark = pytest.mark.req("O-01")

@pytest.mark.req("K-01", "K-02")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.case("L-01"))])
def test_it(x): ...
"""


def test_marks_are_found_on_functions_modules_and_parameters() -> None:
    assert {mark.identifier for mark in find_marks(TESTS, "test_x.py")} == {
        "O-01",
        "K-01",
        "K-02",
        "L-01",
    }


def test_other_calls_of_the_same_name_are_no_marks() -> None:
    assert list(find_marks('self.case("L-01"); request("O-01").req("O-01")', "test_x.py")) == []


def test_a_mark_that_is_computed_is_a_mistake() -> None:
    marks = list(find_marks("import pytest\npytest.mark.req(*IDS)", "test_x.py"))
    assert marks == [Mark(None, "test_x.py:2")]
    text, complete = report({}, marks)
    assert not complete
    assert "test_x.py:2: write the ids out" in text


def test_a_line_that_no_test_carries_is_named_with_its_words() -> None:
    text, complete = report(
        {"O-01": Requirement("a"), "O-02": Requirement("order holds")}, [Mark("O-01", "t:1")]
    )
    assert not complete
    assert "O-02 order holds" in text
    assert "O-01 a" not in text


def test_an_unknown_id_is_a_mistake_even_when_all_else_is_there() -> None:
    text, complete = report({"O-01": Requirement("a")}, [Mark("O-01", "t:1"), Mark("O-99", "t:2")])
    assert not complete
    assert "t:2: O-99" in text


def test_all_carried_is_complete() -> None:
    assert report({"O-01": Requirement("a")}, [Mark("O-01", "t:1")])[1]


def test_an_id_stated_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="O-01"):
        read_requirements("- O-01 a\n- O-01 b\n")


def test_an_open_line_is_listed_and_fails_nothing() -> None:
    stated = read_requirements("- X-01 (open) a gap, always\n- X-02 proved\n")
    text, complete = report(stated, [Mark("X-02", "t:1")])
    assert complete
    assert "X-01 [0] a gap, always" in text
    assert "X-02 proved" not in text


def test_an_open_line_does_not_count_as_proved_by_the_tests_that_carry_it() -> None:
    stated = read_requirements("- X-01 (open) a gap, always\n")
    text, complete = report(stated, [Mark("X-01", "t:1")])
    assert complete
    assert "X-01 [1] a gap, always" in text
    assert "  X        0     1    1" in text


def test_our_own_list_has_every_group_without_holes() -> None:
    stated = read_requirements((ROOT / "docs/requirements.md").read_text(encoding="utf-8"))
    groups: dict[str, list[int]] = {}
    for name in stated:
        groups.setdefault(name[0], []).append(int(name[2:]))
    assert set(groups) >= set("OKCPLWRTXY")
    for group, numbers in groups.items():
        assert numbers == list(range(1, len(numbers) + 1)), group
