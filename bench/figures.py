"""A figure: what was measured in every round, what was hoped for, and how it is shown."""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


SAID: Final = "· "
"""What begins so in a bench's output tells how far it is."""


def say(text: str) -> None:
    """Tell how far a bench is, for whoever watches it."""
    print(f"{SAID}{text}", file=sys.stderr, flush=True)


_MOST_ROUNDS_KEPT: Final = 100
"""A tick or a batch may be measured thousands of times; their spread is kept anyway."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table. Ratios are made round by round, so that both sides met the same load."""

    what: str
    against: str
    rounds: tuple[float, ...]
    """Empty for what could not be measured; the note says why."""
    unit: str = "×"
    target: float | None = None
    at_most: bool = False
    """Whether the target is a ceiling instead of a floor."""
    note: str = ""
    held_back: str = ""
    """What holds it back; shown when the target is missed."""

    @property
    def median(self) -> float:
        """What is shown."""
        return statistics.median(self.rounds) if self.rounds else math.nan

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None or not self.rounds:
            return None
        return self.median <= self.target if self.at_most else self.median >= self.target

    @property
    def wanted(self) -> str:
        """The target in words; empty without one."""
        if self.target is None:
            return ""
        return f"{'at most' if self.at_most else 'at least'} {self.target:g}"

    @property
    def times_target(self) -> tuple[float, float, float] | None:
        """How many times as good as the target: worst round, median, best; None without both."""
        if not self.target or not self.rounds or not all(self.rounds):
            return None
        worst, best = min(self.rounds), max(self.rounds)
        if self.at_most:
            return self.target / best, self.target / self.median, self.target / worst
        return worst / self.target, self.median / self.target, best / self.target

    def as_json(self, command: str) -> dict[str, Any]:
        """Return what is kept of it in the results, with the command that makes it anew."""
        return {
            "what": self.what,
            "against": self.against,
            "median": round(self.median, 4) if self.rounds else None,
            "lowest": round(min(self.rounds), 4) if self.rounds else None,
            "highest": round(max(self.rounds), 4) if self.rounds else None,
            "rounds": [round(each, 4) for each in self.rounds[:_MOST_ROUNDS_KEPT]],
            "unit": self.unit,
            "target": self.target,
            "target_is": None if self.target is None else "most" if self.at_most else "least",
            "met": self.met,
            "note": self.note,
            "held_back": self.held_back if self.met is False else None,
            "command": command,
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


def print_plainly(figures: Sequence[Figure]) -> None:
    """Print a table without colours, for a bench that is run by itself."""
    width = max((len(figure.what) for figure in figures), default=0)
    for figure in figures:
        if not figure.rounds:
            print(f"{figure.what:{width}}  {figure.note}")
            continue
        sign = "≤" if figure.at_most else "≥"
        wanted = "" if figure.target is None else f"{sign} {figure.target:g} "
        verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
        print(
            f"{figure.what:{width}}  {figure.median:9,.2f} {figure.unit:3} "
            f"({min(figure.rounds):,.2f} to {max(figure.rounds):,.2f})  "
            f"{figure.against}  {wanted}{verdict} {figure.note}".rstrip()
        )
        if figure.met is False and figure.held_back:
            print(f"{'':{width}}  held back by {figure.held_back}")
