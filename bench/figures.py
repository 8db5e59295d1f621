"""A figure: what was measured in every round. Ratios are made round by round."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table. Whatever else the machine does slows both sides of a ratio."""

    what: str
    against: str
    rounds: tuple[float, ...]
    """Empty for what could not be measured; the note says why."""
    unit: str = "×"
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the median with its spread."""
        kept = [float(f"{each:.4g}") for each in self.rounds]
        return {
            "what": self.what,
            "against": self.against,
            "median": statistics.median(kept) if kept else None,
            "lowest": min(kept, default=None),
            "highest": max(kept, default=None),
            "unit": self.unit,
            "note": self.note,
        }


def cpu_seconds(action: Callable[[], object], repeats: int) -> float:
    """Return the CPU time of one call, as the mean of some."""
    started = time.process_time()
    for _ in range(repeats):
        action()
    return (time.process_time() - started) / repeats


def in_turns(
    actions: Mapping[str, tuple[Callable[[], object], int]], rounds: int
) -> dict[str, list[float]]:
    """Measure each action in turn, so many rounds: its CPU seconds in each."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, (action, repeats) in actions.items():
            taken[name].append(cpu_seconds(action, repeats))
    return taken


def ratios(slow: Sequence[float], fast: Sequence[float]) -> tuple[float, ...]:
    """Return how many times faster, round by round."""
    return tuple(a / b for a, b in zip(slow, fast, strict=True))
