"""Switch on every known bug in turn, and say how many seeds it takes until it is caught.

`python -m tests.simulation.mutants [--most N] [--case W-02 …]`
"""

# ruff: noqa: T201 - it prints a table

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from tests.simulation.bugs import BUGS
from tests.simulation.world import simulate

if TYPE_CHECKING:
    from tests.simulation.bugs import Bug


def seeds_needed(bug: Bug, most: int) -> tuple[int | None, str]:
    """Return how many seeds it takes to catch a bug, and what was seen."""
    with bug.installed():
        for seed in range(most):
            outcome = simulate(seed)
            if outcome.failure:
                return seed + 1, outcome.failure.splitlines()[0]
    return None, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=150, help="seeds to try for each")
    parser.add_argument("--case", nargs="+", help="only the bugs of these cases")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    bugs = [bug for bug in BUGS if not chosen.case or bug.case in chosen.case]
    escaped = 0
    for bug in bugs:
        needed, seen = seeds_needed(bug, chosen.most)
        escaped += needed is None
        verdict = f"{needed:5d} seeds" if needed else " NOT CAUGHT"
        print(f"{bug.case:5} {verdict}  {bug.what}\n{'':19}{seen[:100]}", flush=True)
    print(f"{len(bugs)} mutants: {len(bugs) - escaped} caught, {escaped} escaped")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
