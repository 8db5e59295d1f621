"""Reads, sets and removes the attribute at a path of an item."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from shardline.local.dynamodb.values import Item, Value, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shardline.local.dynamodb.syntax import Path


def read(item: Item, path: Path) -> Value | None:
    """Return the value at a path, or None if there is none."""
    return _follow({"M": item}, path.parts)


def check_overlaps(label: str, paths: Sequence[Path]) -> None:
    """Raise a refusal if one path is, or lies within, another."""
    for one, two in combinations(paths, 2):
        shorter = min(len(one.parts), len(two.parts))
        if one.parts[:shorter] == two.parts[:shorter]:
            raise invalid(
                f"Invalid {label}: Two document paths overlap with each other; must remove or "
                f"rewrite one of these paths; path one: {one}, path two: {two}"
            )


def project(item: Item, paths: Iterable[Path]) -> Item:
    """Return a copy of an item with only the attributes at these paths."""
    tree: dict[str | int, Any] = {}
    for path in paths:
        if read(item, path) is not None:
            branch = tree
            for part in path.parts:
                branch = branch.setdefault(part, {})
    projected: Item = _prune({"M": item}, tree)["M"]
    return projected


def write(item: Item, path: Path, value: Value) -> None:
    """Set the value at a path; beyond the end of a list it is appended."""
    container, last = _parent(item, path)
    if isinstance(container, list) and isinstance(last, int):
        container[last : last + 1] = [value]
    elif isinstance(container, dict) and isinstance(last, str):
        container[last] = value
    else:
        raise _invalid_path()


def remove(item: Item, path: Path) -> None:
    """Remove the attribute at a path; one that does not exist is no error."""
    container, last = _parent(item, path)
    if isinstance(container, list) and isinstance(last, int):
        del container[last : last + 1]
    elif isinstance(container, dict) and isinstance(last, str):
        container.pop(last, None)
    else:
        raise _invalid_path()


def _parent(item: Item, path: Path) -> tuple[Any, str | int]:
    parent = _follow({"M": item}, path.parts[:-1])
    if parent is None:
        raise _invalid_path()
    return parent.get("M", parent.get("L")), path.parts[-1]


def _follow(value: Value, parts: Iterable[str | int]) -> Value | None:
    for part in parts:
        match value:
            case {"M": dict(members)} if part in members:
                value = members[str(part)]
            case {"L": list(members)} if isinstance(part, int) and part < len(members):
                value = members[part]
            case _:
                return None
    return value


def _prune(value: Value, tree: dict[str | int, Any]) -> Value:
    if not tree:
        return value
    if "M" in value:
        members = value["M"]
        return {"M": {n: _prune(members[str(n)], branch) for n, branch in tree.items()}}
    members = value["L"]
    return {"L": [_prune(members[i], tree[i]) for i in sorted(i for i in tree if type(i) is int)]}


def _invalid_path() -> Exception:
    return invalid("The document path provided in the update expression is invalid for update")
