"""Lists the lines of docs/requirements.md that no test proves; fails if one is not marked open.

A test carries a line by its id: `@pytest.mark.req("K-23")` or `@pytest.mark.case("L-06")`. A line
that no test proves completely yet is written `- X-04 (open) ...`: it is listed, and fails nothing.
The tests are parsed, not imported, so this takes a second.
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
    """One id on a test; the identifier is None if it is not a plain string."""

    identifier: str | None
    place: str


@dataclass(frozen=True)
class Requirement:
    """One line of the list: what it states, and whether it is marked as not proved yet."""

    text: str
    open: bool = False


def read_requirements(text: str) -> dict[str, Requirement]:
    """Return every requirement by its id, in the order of the page."""
    lines = re.findall(r"^- ([A-Z]-\d\d) (\(open\) )?(.+)$", text, re.MULTILINE)
    repeated = [found for found, count in Counter(line[0] for line in lines).items() if count > 1]
    if repeated:
        raise ValueError(f"stated twice: {', '.join(repeated)}")
    return {name: Requirement(words, bool(mark)) for name, mark, words in lines}


def find_marks(source: str, name: str) -> Iterator[Mark]:
    """Yield every `mark.req(...)` and `mark.case(...)` of a file, at any depth."""
    for node in ast.walk(ast.parse(source, name)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr in MARKS and ast.unparse(node.func.value) in ("mark", "pytest.mark"):
            for argument in node.args:
                plain = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                identifier = ast.literal_eval(argument) if plain else None
                yield Mark(identifier, f"{name}:{argument.lineno}")


def report(requirements: Mapping[str, Requirement], marks: Iterable[Mark]) -> tuple[str, bool]:
    """Return the report, and true if every requirement is either proved or marked open."""
    carried: Counter[str] = Counter()
    mistakes = []
    for mark in marks:
        if mark.identifier is None:
            mistakes.append(f"  {mark.place}: write the ids out as texts")
        elif mark.identifier not in requirements:
            mistakes.append(f"  {mark.place}: {mark.identifier} is not in docs/requirements.md")
        else:
            carried[mark.identifier] += 1
    open_ = [name for name, requirement in requirements.items() if requirement.open]
    proved = [name for name in requirements if carried[name] and name not in open_]
    missing = [name for name in requirements if not carried[name] and name not in open_]

    def count(names: Iterable[str]) -> Counter[str]:
        return Counter(name[0] for name in names)

    lines = ["group  proved  open   of"]
    lines += [
        f"  {group}    {count(proved)[group]:>5} {count(open_)[group]:>5} {total:>4}"
        for group, total in count(requirements).items()
    ]
    lines.append(f"  all  {len(proved):>5} {len(open_):>5} {len(requirements):>4}")
    if open_:
        lines += ["", "Open (not proved completely; tests that carry the id in brackets):"]
        lines += [f"  {name} [{carried[name]}] {requirements[name].text}" for name in open_]
    if missing:
        lines += ["", "No test carries:"]
        lines += [f"  {name} {requirements[name].text}" for name in missing]
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
