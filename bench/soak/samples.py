"""Samples of processes from /proc: memory, descriptors, threads, CPU time, lines of their logs."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.soak.history import lines_of
from bench.workload.processes import tree_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_TICKS: Final = os.sysconf("SC_CLK_TCK")
SAMPLES: Final = "samples.jsonl"


def sample_of(pid: int) -> dict[str, float]:
    """Return the figures of one process. Raises `OSError` if it has ended."""
    folder = Path(f"/proc/{pid}")
    memory = (folder / "smaps_rollup").read_text()
    status = (folder / "status").read_text()
    after_name = (folder / "stat").read_text().rpartition(")")[2].split()
    return {
        "pid": pid,
        "pss_mib": round(_number_after(memory, "\nPss:") / 1024, 3),
        "rss_mib": round(_number_after(memory, "\nRss:") / 1024, 3),
        "descriptors": sum(1 for _ in (folder / "fd").iterdir()),
        "threads": _number_after(status, "\nThreads:"),
        "cpu_seconds": sum(map(int, after_name[11:13])) / _TICKS,
    }


def samples_of_trees(roots: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Return the figures of processes and their children: "name", "name child", "name child 2"."""
    found: dict[str, dict[str, float]] = {}
    for name, root in roots.items():
        for number, pid in enumerate(sorted(tree_of(root))):
            role = name if pid == root else f"{name} child" + (f" {number}" if number > 1 else "")
            with suppress(OSError):
                found[role] = sample_of(pid)
    return found


class LineCounter:
    """Counts the lines of a file that grows, reading each byte once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = self._lines = 0

    def count(self) -> int:
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                text = file.read()
            self._read_bytes += len(text)
            self._lines += text.count(b"\n")
        return self._lines


def read_samples(folder: Path) -> list[dict[str, Any]]:
    """Return the samples of a run, also of one that still goes on."""
    return [json.loads(line) for line in lines_of(folder / SAMPLES)]


def _number_after(text: str, label: str) -> int:
    return int(text.partition(label)[2].split()[0])
