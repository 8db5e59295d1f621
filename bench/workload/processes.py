"""CPU time and memory of a process with all its descendants, from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """What a process tree has used until now."""

    cpu_seconds: float
    memory_mib: float
    """Proportional: a page that several processes share counts once."""


def tree_of(pid: int) -> list[int]:
    """Return a process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            after_name = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found, queue = [], [pid]
    while queue:
        found.append(queue.pop())
        queue += children.get(found[-1], [])
    return found


def usage_of(pid: int) -> Usage:
    """Return what a process tree has used; children that ended and were waited for included."""
    ticks, kib = 0, 0
    for each in tree_of(pid):
        with suppress(OSError):
            after_name = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, after_name[11:15]))
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
            kib += int(rollup.partition("\nPss:")[2].split()[0])
    return Usage(ticks / _TICKS, kib / 1024)
