"""Lists the lines of docs/requirements.md that no test carries; fails while there are any.

A test carries a line by its id: `@pytest.mark.req("K-23")` or `@pytest.mark.case("L-06")`. The
tests are parsed, not imported, so this takes a second.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MARKS: Final = ("req", "case")


@dataclass(frozen=True)
class Mark:
    """One id as a test carries it; None where it is no plain text, which nobody could look up."""

    identifier: str | None
    place: str


def read_requirements(text: str) -> dict[str, str]:
    """Read the list: each id with what it states."""
    lines = re.findall(r"^- ([A-Z]-\d\d) (.+)$", text, re.MULTILINE)
    repeated = [found for found, count in Counter(name for name, _ in lines).items() if count > 1]
    if repeated:
        raise ValueError(f"stated twice: {', '.join(repeated)}")
    return dict(lines)


def find_marks(source: str, name: str) -> Iterator[Mark]:
    """Find every `mark.req(...)` and `mark.case(...)` in a file, wherever it stands."""
    for node in ast.walk(ast.parse(source, name)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr in MARKS and ast.unparse(node.func.value) in ("mark", "pytest.mark"):
            for argument in node.args:
                plain = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                identifier = ast.literal_eval(argument) if plain else None
                yield Mark(identifier, f"{name}:{argument.lineno}")


def report(requirements: Mapping[str, str], marks: Iterable[Mark]) -> tuple[str, bool]:
    """Say what is covered, group by group, and what is not; True if nothing is missing."""
    covered: set[str] = set()
    mistakes = []
    for mark in marks:
        if mark.identifier is None:
            mistakes.append(f"  {mark.place}: write the ids out as texts")
        elif mark.identifier not in requirements:
            mistakes.append(f"  {mark.place}: {mark.identifier} is not in docs/requirements.md")
        else:
            covered.add(mark.identifier)
    missing = [identifier for identifier in requirements if identifier not in covered]

    lines = ["group  proved  of"]
    stated, proved = (Counter(name[0] for name in names) for names in (requirements, covered))
    lines += [f"  {group}    {proved[group]:>5} {total:>4}" for group, total in stated.items()]
    lines.append(f"  all  {len(covered):>5} {len(requirements):>4}")
    if missing:
        lines += ["", "No test carries:"]
        lines += [f"  {identifier} {requirements[identifier]}" for identifier in missing]
    if mistakes:
        lines += ["", "Wrong in tests:", *mistakes]
    return "\n".join(lines), not (missing or mistakes)


def main() -> int:
    """Print the report for this checkout."""
    root = Path(__file__).resolve().parent.parent
    requirements = read_requirements((root / "docs/requirements.md").read_text(encoding="utf-8"))
    marks = (
        mark
        for path in sorted((root / "tests").rglob("*.py"))
        if "node_modules" not in path.parts
        for mark in find_marks(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    )
    text, complete = report(requirements, marks)
    sys.stdout.write(text + "\n")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
