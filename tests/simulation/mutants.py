"""Switch on every known bug in turn, and print how many seeds it takes until it is caught.

With `--small`, what no seed catches is tried in the small world: see `small_scopes`.

`python -m tests.simulation.mutants [--most N] [--small] [--case W-02 …]`
"""

# ruff: noqa: T201 - it prints a table

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from tests.simulation.bugs import BUGS
from tests.simulation.small_scopes import run
from tests.simulation.world import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.bugs import Bug


SMALL_CALLS = 208


def seeds_needed(bug: Bug, most: int, *, small: bool) -> tuple[str | None, str]:
    """Return how many seeds, or schedules of the small world, catch a bug, and what was seen."""
    with bug.installed():
        for seed in range(most):
            outcome = simulate(seed)
            if outcome.failure:
                return f"{seed + 1:5d} seeds", _seen(outcome.failure)
        for number, script in enumerate(_schedules() if small else (), start=1):
            failure = run(script).failure
            if failure:
                return f"{number:5d} small", f"{script}: {_seen(failure)}"
    return None, ""


def _seen(failure: str) -> str:
    """Return what was seen. A mutant that does not fit the code any more proves nothing."""
    if failure.startswith(("TypeError", "AttributeError", "NameError", "KeyError")):
        raise AssertionError(f"the mutant itself is broken: {failure}")
    return failure.splitlines()[0]


def _schedules() -> Iterator[dict[int, str]]:
    """Return the schedules of the small world with one lost call or one dead process."""
    for fate in ("request lost", "kill runner", "crash"):
        for call in range(1, SMALL_CALLS + 1):
            yield {call: fate}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=60, help="seeds to try for each")
    parser.add_argument("--small", action="store_true", help="then try it in the small world")
    parser.add_argument("--case", nargs="+", help="only the bugs of these cases")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    bugs = [bug for bug in BUGS if not chosen.case or bug.case in chosen.case]
    escaped = 0
    for bug in bugs:
        needed, seen = seeds_needed(bug, chosen.most, small=chosen.small)
        escaped += needed is None
        verdict = needed or " NOT CAUGHT"
        print(f"{bug.case:5} {verdict}  {bug.what}\n{'':19}{seen[:100]}", flush=True)
    print(f"{len(bugs)} mutants: {len(bugs) - escaped} caught, {escaped} escaped")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
