"""What the processes of a query on the driver count, in small files that the command reads.

Spark gives a Python source and a Python sink no way to report figures, and both live in processes
of their own. They share a folder with whoever started the query.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE: Final = "leases"
SINK: Final = "deliveries"


def write_tally(folder: Path, name: str, values: Mapping[str, int]) -> None:
    """Replace a tally in one step, so that a reader sees it whole. One writer for each name."""
    path = _path(folder, name)
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(json.dumps(dict(values)), encoding="utf-8")
        fresh.replace(path)
    except FileNotFoundError:
        pass  # the folder goes when the query has been stopped: nobody reads it any more


def add_to_tally(folder: Path, name: str, more: Mapping[str, int]) -> None:
    """Add to the values of a tally."""
    before = read_tally(folder, name)
    names = before.keys() | more.keys()
    write_tally(folder, name, {n: before.get(n, 0) + more.get(n, 0) for n in sorted(names)})


def read_tally(folder: Path, name: str) -> dict[str, int]:
    """Read a tally; empty if there is none yet."""
    try:
        values: dict[str, int] = json.loads(_path(folder, name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return values


def _path(folder: Path, name: str) -> Path:
    return Path(folder) / f"{name}.json"
