"""Run many seeds, or one that failed: `python -m tests.simulation --seeds 2000 | SEED`."""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import logging
import secrets
import sys
import time
from contextlib import closing
from typing import Final

from tests.simulation.jobs import outcomes_of
from tests.simulation.world import Outcome, shrink, simulate

_PROGRESS_SECONDS: Final = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("only", nargs="?", type=int, metavar="SEED", help="replay only this one")
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--fresh", action="store_true", help="begin at a seed nobody ran before")
    parser.add_argument("--seconds", type=float, help="stop after this much time")
    parser.add_argument("--keep-going", action="store_true", help="list all failing seeds")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes to run them in")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if chosen.only is not None:
        return _tell(chosen.only)
    first = secrets.randbelow(10**12) if chosen.fresh else chosen.first
    print(f"seeds from {first} on, at most {chosen.seeds}", flush=True)
    began, outcomes = time.monotonic(), list[Outcome]()
    said_at = began
    with closing(outcomes_of(simulate, range(first, first + chosen.seeds), chosen.jobs)) as running:
        for outcome in running:
            outcomes.append(outcome)
            if outcome.failure:
                print(f"seed {outcome.seed}: {outcome.failure}", flush=True)
                if not chosen.keep_going:
                    break
            now = time.monotonic()
            if now - said_at > _PROGRESS_SECONDS:
                said_at = now
                print(f"{len(outcomes)} of {chosen.seeds} seeds, {now - began:.0f} s", flush=True)
            if chosen.seconds is not None and now - began > chosen.seconds:
                break
    _report(outcomes, time.monotonic() - began)
    failing = [outcome.seed for outcome in outcomes if outcome.failure]
    return _tell(failing[0]) if failing else 0


def _report(outcomes: list[Outcome], spent: float) -> None:
    """Print the figures of a run."""
    ran, slowest = len(outcomes), max(outcomes, key=lambda outcome: outcome.cpu_seconds)
    print(
        f"{ran} seeds, {sum(1 for o in outcomes if o.failure)} failed: "
        f"{sum(o.delivered for o in outcomes)} records delivered, "
        f"{sum(o.repeated for o in outcomes)} repeated, {sum(o.stale for o in outcomes)} stale; "
        f"{sum(o.events for o in outcomes)} events in "
        f"{sum(o.seconds for o in outcomes) / 3600:.1f} h of virtual time; healed within "
        f"{max(o.healed_after for o in outcomes):.1f} lease times; {spent:.1f} s "
        f"({ran / sum(o.cpu_seconds for o in outcomes):.1f} seeds a second of CPU; the slowest, "
        f"{slowest.seed}, took {slowest.cpu_seconds:.1f} s)"
    )


def _tell(seed: int) -> int:
    outcome = simulate(seed)
    if not outcome.failure:
        print(f"seed {seed}: all promises kept, healed after {outcome.healed_after:.1f} leases")
        return 0
    shrunk = shrink(outcome)
    print(
        f"seed {seed} with {len(shrunk.faults)} of {len(outcome.faults)} faults: {shrunk.failure}"
    )
    print(shrunk.story)
    print(f"replay: make simulate SEED={seed}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
