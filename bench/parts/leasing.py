"""Many shards on many workers: how they settle, and how one that dies, joins or leaves is felt.

Shipped coordinators in virtual time (`bench.leasing_fleet`); the CPU time of a tick is real.
"""

from __future__ import annotations

import gc
import logging
from typing import Any, Final

from bench.figures import Figure
from bench.leasing_fleet import TIMES, Fleet

SHARDS, WORKERS = 5_000, 100
QUICK_SHARDS, QUICK_WORKERS = 1_000, 50
DEATHS: Final = 2
MOST_SECONDS: Final = 120.0


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Start a fleet, let it settle, and kill some of its workers one after the other."""
    logging.disable(logging.CRITICAL)
    gc.disable()  # it would look at the rows of all workers again and again
    shards, workers = (QUICK_SHARDS, QUICK_WORKERS) if quick else (SHARDS, WORKERS)
    fleet = Fleet(shards, workers)
    settled = fleet.run_until_settled(MOST_SECONDS)
    slowest = max(fleet.tick_seconds)
    fleet.tick_seconds = []
    deaths = []
    for number in range(1, DEATHS + 1):
        fleet.dead.add(number * workers // (DEATHS + 1))
        deaths.append(fleet.run_until_owned(MOST_SECONDS) / TIMES.lease_seconds)
        fleet.run_until_settled(MOST_SECONDS)
    fleet.join()
    joined = fleet.longest_unowned(2 * TIMES.lease_seconds) / TIMES.lease_seconds
    fleet.leave(0)
    left = fleet.longest_unowned(2 * TIMES.lease_seconds) / TIMES.lease_seconds
    ticks = tuple(1000 * seconds for seconds in fleet.tick_seconds)
    size = f"{shards:,} shards, {workers:,} workers"
    lease = f"a lease of {TIMES.lease_seconds:.0f} s"
    return [
        figure.as_json()
        for figure in (
            Figure(f"all start: shared evenly, {size}", lease, (settled / TIMES.lease_seconds,)),
            Figure("one dies: all its shards have new owners", lease, tuple(deaths)),
            Figure("one joins: longest time that a shard has no owner", lease, (joined,)),
            Figure("one leaves: longest time that a shard has no owner", lease, (left,)),
            Figure("CPU of a tick", "", ticks, "ms"),
            Figure("CPU of the slowest tick of all, a first one", "", (1000 * slowest,), "ms"),
        )
    ]
