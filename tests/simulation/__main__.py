"""Run many seeds, or one that failed: `python -m tests.simulation --seeds 2000 | --seed 17`."""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation.world import shrink, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("only", nargs="?", type=int, metavar="SEED", help="the same as --seed")
    parser.add_argument("--seed", type=int, help="run only this one, and tell its story")
    parser.add_argument("--keep-going", action="store_true", help="list all failing seeds")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    only = chosen.only if chosen.seed is None else chosen.seed
    if only is not None:
        return _tell(only)
    began, virtual, failed, repeated, stale, delivered = time.process_time(), 0.0, 0, 0, 0, 0
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        outcome = simulate(seed)
        virtual += outcome.seconds
        delivered, repeated = delivered + outcome.delivered, repeated + outcome.repeated
        stale += outcome.stale
        if outcome.failure:
            failed += 1
            print(f"seed {seed}: {outcome.failure}")
            if not chosen.keep_going:
                return _tell(seed)
    spent = time.process_time() - began
    print(
        f"{chosen.seeds} seeds, {failed} failed: {delivered} delivered, {repeated} repeated,"
        f" {stale} stale; {virtual / 3600:.1f} h of virtual time in {spent:.1f} s of CPU "
        f"({chosen.seeds / spent:.1f} seeds a second)"
    )
    return 1 if failed else 0


def _tell(seed: int) -> int:
    outcome = simulate(seed)
    if not outcome.failure:
        print(f"seed {seed}: all promises kept")
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
