"""The rules of the layout; each takes a file and yields one line for each breach."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYERS: Final = (
    *("errors", "core", "services", "leases", "consumer", "streams", "tables"),
    *("spark", "observation", "local", "dashboard", "cli"),
)
"""A file imports only from its own folder, or from one earlier in this list."""

PUBLIC: Final = "__init__"
"""The package itself: it exports names of every layer, so no layer may import from it."""

FORBIDDEN_WORDS: Final = {
    *("util", "utils", "helper", "helpers", "manager", "managers"),
    *("base", "common"),
}

PURE_MODULES: Final = {
    *("__future__", "abc", "base64", "bisect", "collections", "contextlib", "dataclasses"),
    *(
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
    ),
    *("operator", "re", "string", "struct", "types", "typing", "zlib", "numpy", "shardline"),
}
"""The only modules that core/ may import: arithmetic and plain values; numpy for arrays."""

IMPURE_CALLS: Final = {
    *("now", "utcnow", "today", "open", "print", "input", "exec", "eval"),
    *("load", "fromfile", "tofile", "memmap", "default_rng"),
}

LONGEST_FILE_LINES: Final = 500

REGISTRY_HOSTS: Final = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|crates\.io|proxy\.golang\.org"
    r"|repo1?\.maven\.|deb\.debian\.org"
)
MACHINE_FOLDERS: Final = r"/(?:root|home|Users|work)/\w+"


def wrong_imports(path: PurePosixPath, tree: ast.Module) -> Iterator[str]:
    """Yield imports against the direction; `path` is relative to src/."""
    layer = _layer_of_file(path)
    if layer not in LAYERS:
        return
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for line, module in _imported(path, tree):
        package, target, *_ = [*module.split("."), PUBLIC]
        if package == "shardline" and target not in allowed:
            what = f"{target}/" if target in LAYERS else "the package itself"
            yield f"{path}:{line}: {layer}/ may not import from {what}"


def impure_core(path: PurePosixPath, tree: ast.Module) -> Iterator[str]:
    """Yield whatever in core/ could read, write, wait or read a clock."""
    if _layer_of_file(path) != "core":
        return
    for line, module in _imported(path, tree):
        if module.split(".")[0] not in PURE_MODULES:
            yield f"{path}:{line}: core/ may not import {module}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if called in IMPURE_CALLS:
                yield f"{path}:{node.lineno}: core/ may not call {called}(); pass it in"


def forbidden_names(path: PurePosixPath, tree: ast.Module) -> Iterator[str]:
    """Yield names of files, folders and classes that do not say what they contain."""
    for part in path.with_suffix("").parts:
        if FORBIDDEN_WORDS & {*part.lower().split("_")}:
            yield f"{path}: a file is not named for what it does: {part}"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", node.name)
            if FORBIDDEN_WORDS & {word.lower() for word in words}:
                yield f"{path}:{node.lineno}: a class is not named for what it is: {node.name}"


def missing_docstring(path: PurePosixPath, tree: ast.Module) -> Iterator[str]:
    """Yield a module that has no docstring."""
    if not ast.get_docstring(tree):
        yield f"{path}: has no docstring"


def too_long(path: PurePosixPath, text: str) -> Iterator[str]:
    """Yield a file that is longer than the limit."""
    lines = text.count("\n")
    if lines > LONGEST_FILE_LINES:
        yield f"{path}: {lines} lines, more than {LONGEST_FILE_LINES}"


def foreign_addresses(path: PurePosixPath, text: str, root: str) -> Iterator[str]:
    """Yield paths of one machine, and hosts of registries, which differ between machines."""
    # Only where a path begins: a checkout may be called as a folder in it is.
    paths = re.compile(rf"""(?:^|(?<=[\s"'=:(`]))(?:{MACHINE_FOLDERS}|{re.escape(root)}\b)""")
    for number, line in enumerate(text.splitlines(), start=1):
        if found := paths.search(line) or REGISTRY_HOSTS.search(line):
            yield f"{path}:{number}: true on one machine only: {found[0]}"


def _layer_of_file(path: PurePosixPath) -> str:
    """Return the layer of a file, or its package if that has no layers."""
    if path.parts[0] != "shardline":
        return path.parts[0]
    return PurePosixPath(path.parts[1]).stem


def _imported(path: PurePosixPath, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every module that is imported, also under TYPE_CHECKING and inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = path.parent.parts[: len(path.parent.parts) - node.level + 1]
            module = ".".join([*(start if node.level else ()), *filter(None, [node.module])])
            if module == "shardline":
                yield from ((node.lineno, f"shardline.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module
