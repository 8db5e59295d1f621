"""The lists of planted bugs and removed guards still fit the code and the tests."""

from __future__ import annotations

import re

import pytest

from tools.planted_bugs import BUGS, ROOT, PlantedBug
from tools.removed_guards import GUARDS

ALL = (*BUGS, *(PlantedBug(*guard) for guard in GUARDS))


@pytest.mark.parametrize("bug", ALL, ids=[f"{bug.ids}: {bug.what}" for bug in ALL])
def test_the_right_line_stands_in_its_file_once_and_the_test_is_there(bug: PlantedBug) -> None:
    source = (ROOT / "src/shardline" / bug.path).read_text(encoding="utf-8")
    assert source.count(bug.right) == 1
    place, _, chosen = bug.test.partition(" -k ")
    tests = "".join(_text(each.partition("::")[0]) for each in place.split())
    for word in re.findall(r"\w+", chosen):
        assert word in {"and", "or", "not"} or word in tests


def _text(place: str) -> str:
    path = ROOT / place
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return "".join(file.read_text(encoding="utf-8") for file in files)
