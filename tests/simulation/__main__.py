"""Run many seeds, or one that failed: `python -m tests.simulation --seeds 2000 | SEED`."""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import logging
import secrets
import sys
import time
from multiprocessing import get_context
from typing import TYPE_CHECKING

from tests.simulation.world import shrink, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.simulation.world import Outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
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
    print(f"seeds {first} to {first + chosen.seeds - 1}", flush=True)
    began, ran, failed, events, virtual, longest = time.monotonic(), 0, 0, 0, 0.0, 0.0
    delivered = repeated = stale = 0
    for outcome in _outcomes(range(first, first + chosen.seeds), chosen.jobs):
        ran += 1
        virtual, events = virtual + outcome.seconds, events + outcome.events
        delivered, repeated = delivered + outcome.delivered, repeated + outcome.repeated
        stale, longest = stale + outcome.stale, max(longest, outcome.healed_after)
        if outcome.failure:
            failed += 1
            print(f"seed {outcome.seed}: {outcome.failure}", flush=True)
            if not chosen.keep_going:
                return _tell(outcome.seed)
        if chosen.seconds is not None and time.monotonic() - began > chosen.seconds:
            break
    spent = time.monotonic() - began
    print(
        f"{ran} seeds, {failed} failed: {delivered} records delivered, {repeated} repeated, "
        f"{stale} stale; {events} events in {virtual / 3600:.1f} h of virtual time; healed within "
        f"{longest:.1f} lease times; {spent:.1f} s ({ran / spent:.1f} seeds a second)"
    )
    return 1 if failed else 0


def _outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """Run seeds, in several processes if there are jobs for them."""
    if jobs == 1:
        yield from map(simulate, seeds)
        return
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(simulate, seeds, chunksize=4)


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
