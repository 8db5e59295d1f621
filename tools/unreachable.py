"""Lists functions, classes, methods and constants of src/ that nothing in src/ or docs/ uses.

By name: a definition is a candidate if no expression of src/ and no code in docs/ has its name. So
it misses what shares its name with something in use, and each candidate must be judged by a
person: a framework may call it by name.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, order=True)
class Definition:
    """A name that a file of src/ defines."""

    path: str
    line: int
    name: str


def definitions(path: str, tree: ast.Module) -> Iterator[Definition]:
    """Yield the functions, classes, methods and module constants that a file defines."""
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS) and not _called_by_its_decorator(node):
            yield Definition(path, node.lineno, node.name)
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            for name in ast.walk(statement):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield Definition(path, statement.lineno, name.id)


def uses(tree: ast.Module) -> Iterator[str]:
    """Yield the names that expressions load, attributes included, and words of plain texts."""
    prose = {id(text) for node in ast.walk(tree) for text in _docstrings(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in prose:
                yield from re.findall(r"\w+", text)  # quoted annotations, getattr, dispatch tables
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                yield from (alias.name for alias in aliases if alias.asname == alias.name)


def unreachable(sources: Mapping[str, str], pages: Mapping[str, str]) -> list[Definition]:
    """Return the definitions that no source uses and no page names in code."""
    trees = {path: ast.parse(source, path) for path, source in sources.items()}
    used = {name for tree in trees.values() for name in uses(tree)}
    for text in pages.values():
        for code in re.findall(r"^```.*?^```|`[^`\n]+`", text, re.DOTALL | re.MULTILINE):
            used.update(re.findall(r"\w+", code))
    return sorted(
        found
        for path, tree in trees.items()
        for found in definitions(path, tree)
        if found.name not in used and not found.name.startswith("__")
    )


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts in a body that are statements of their own."""
    if isinstance(node, _DOCUMENTED):
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value


def _called_by_its_decorator(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    names = {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}
    return "override" in names or "web.middleware" in names


def main() -> int:
    """Print the candidates of this checkout; always succeeds."""
    root = Path(__file__).resolve().parent.parent

    def read(folder: str, pattern: str) -> dict[str, str]:
        paths = sorted((root / folder).rglob(pattern))
        return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}

    for found in unreachable(read("src", "*.py"), read("docs", "*.md")):
        sys.stdout.write(f"{found.path}:{found.line}: {found.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
