"""The tool that lists what only tests use."""

from __future__ import annotations

import pytest

from tools.unreachable import unreachable

SOURCE = """
LIMIT = 3
class Used:
    \"\"\"Mentions lonely in prose, which is no use.\"\"\"
    def method(self): return helper_of()
    def lonely(self): return LIMIT
def helper_of(): return Used().method
def documented(): ...
def quoted(value: "Annotated"): ...
class Annotated: ...
quoted(1)
"""


def test_what_nothing_uses_is_listed() -> None:
    found = unreachable({"a.py": SOURCE}, {"a.md": "`documented()` is public; lonely is not"})
    assert [each.name for each in found] == ["lonely"]


@pytest.mark.parametrize("use", ["x.lonely()", "getattr(x, 'lonely')", "call(lonely)"])
def test_a_use_anywhere_keeps_it(use: str) -> None:
    found = unreachable({"a.py": SOURCE, "b.py": use}, {"a.md": "`documented`"})
    assert found == []
