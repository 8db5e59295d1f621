"""Tests run against the strict service, unless they say why not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
OF_THE_SERVICE = ("test_local_*.py", "test_faults.py", "test_kinesis_protocol.py")
"""Tests of the embedded service itself: each names what it switches on."""


def kind_services(path: Path) -> Iterator[int]:
    """Yield the lines that make a service which is not strict, and do not say why."""
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        strict = any(option.arg == "strict" for option in node.keywords)
        nearby = "\n".join(lines[max(0, node.lineno - 4) : node.lineno]).lower()
        if node.func.id == "Service" and not strict and "not strict" not in nearby:
            yield node.lineno


def test_a_service_of_a_test_is_strict_or_says_why_not() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if "node_modules" not in path.parts and not any(map(path.match, OF_THE_SERVICE))
        for line in kind_services(path)
    ]
    assert found == []
