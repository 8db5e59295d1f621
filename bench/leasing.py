"""Many shards on many workers: how they settle, what it costs, and how a dead one is missed.

`python -m bench.leasing [--shards N --workers N --minutes M]` prints progress, then a table, and
returns 1 if a target is missed. Every worker is a real `Coordinator`; the table is in memory and
counts, and time is virtual: see `bench.leasing_fleet`.

`python -m bench.leasing --processes` runs four real worker processes on SQLite and on DynamoDB
Local instead, kills and freezes them by chance, and prints how long that was felt.
"""

from __future__ import annotations

import argparse
import gc
import logging
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.figures import Figure, print_plainly
from bench.leasing_fleet import TIMES, Costs, Fleet, Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Fleet", "Listing", "figures", "main"]

SHARDS: Final = 10_000
WORKERS: Final = 500
MINUTES: Final = 0.5
SMALLER: Final = 5
"""How many times smaller the fleets are whose reads are compared, one with twice the shards."""
DEATHS: Final = 3
MOST_SETTLING_SECONDS: Final = 120.0
KCL_WRITES_PER_SHARD_HOUR: Final = 1088
PROCESSES_TEST: Final = "tests/integration/test_lease_processes.py"


class Steady(NamedTuple):
    """What a fleet that has settled costs in an hour."""

    writes: dict[str, float]
    """For each shard: of rows, heartbeats and headers."""
    read_calls: float
    """For each worker."""
    rows_read: float
    read_units: float
    ticks_ms: tuple[float, ...]


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure for `python -m bench`."""
    if quick:
        return measure(SHARDS // 10, WORKERS // 10, MINUTES / 2)
    return measure(SHARDS, WORKERS, MINUTES)


def measure(
    shards: int, workers: int, minutes: float, say: Callable[[str], None] = lambda _: None
) -> list[Figure]:
    """Let a fleet start, settle, work, and lose some of its workers one after the other."""
    with _undisturbed():
        fleet = Fleet(shards, workers)
        settling = _settle(fleet, say)
        start = fleet.table.costs
        first_ticks_ms = _ticks_ms(fleet)
        steady = _work(fleet, workers, minutes, say)
        deaths = [_lose(fleet, n * workers // (DEATHS + 1), say) for n in range(1, DEATHS + 1)]
        del fleet
        gc.collect()
        some, few = max(2, workers // SMALLER), max(20, shards // SMALLER)
        single, double = (_reads(some, count, minutes, say) for count in (few, 2 * few))
    size = f"{shards:,} shards, {workers:,} workers"
    writes = ", ".join(f"{kind} {n:.0f}" for kind, n in sorted(steady.writes.items()))
    return [
        Figure(
            f"settling, {size}",
            "lease times",
            (settling.seconds / TIMES.lease_seconds,),
            note=f"all start within a second; of {sum(start.writes.values()):,} writes "
            f"{start.refused:,} were refused",
        ),
        Figure("the most held less the fewest", "1", (settling.difference,), "", 1, at_most=True),
        Figure(
            "one dies: all its shards have new owners",
            "lease times, the worst of some",
            (max(deaths) / TIMES.lease_seconds,),
            target=1.5,
            at_most=True,
            note=", ".join(f"{seconds:.1f} s" for seconds in deaths),
        ),
        Figure(
            "writes of a shard in an hour",
            f"a third of the KCL's {KCL_WRITES_PER_SHARD_HOUR:,}",
            (sum(steady.writes.values()),),
            "",
            KCL_WRITES_PER_SHARD_HOUR / 3,
            at_most=True,
            note=writes,
        ),
        Figure(
            "reads of a worker in an hour",
            "calls",
            (steady.read_calls,),
            "",
            note=f"{steady.rows_read:,.0f} rows, {steady.read_units:,.0f} DynamoDB read units",
        ),
        Figure(
            "reads with twice the shards",
            f"calls, {some:,} workers on {few:,} shards",
            (double.read_calls / single.read_calls,),
            target=1.1,
            at_most=True,
            note=f"rows {double.rows_read / single.rows_read:.2f} ×; DynamoDB read units "
            f"{double.read_units / single.read_units:.2f} ×: each worker reads its own rows again",
        ),
        Figure("a tick", "CPU", steady.ticks_ms, "ms", note="once settled"),
        Figure(
            "the slowest tick once settled", "CPU", (steady.ticks_ms[-1],), "ms", 100, at_most=True
        ),
        Figure(
            "the slowest tick of all",
            "CPU",
            (first_ticks_ms[-1],),
            "ms",
            100,
            at_most=True,
            note="the first ones, in which the whole table is read and traced",
        ),
    ]


class Settling(NamedTuple):
    """How a fleet settled."""

    seconds: float
    difference: int


def _settle(fleet: Fleet, say: Callable[[str], None]) -> Settling:
    began = time.monotonic()
    while not fleet.settled() and fleet.now < MOST_SETTLING_SECONDS:
        fleet.run_until(fleet.now + 1)
        held = fleet.held()
        say(
            f"  {fleet.now:3.0f} s: {sum(held):6,} of {fleet.shards:,} owned, {held[0]} to "
            f"{held[-1]} each ({time.monotonic() - began:.0f} s on the wall)"
        )
    held = fleet.held()
    return Settling(fleet.now, held[-1] - held[0])


def _work(fleet: Fleet, workers: int, minutes: float, say: Callable[[str], None]) -> Steady:
    fleet.run_until(fleet.now + TIMES.checkpoint_seconds)
    fleet.table.costs, fleet.tick_seconds = Costs(), []
    end = fleet.now + 60 * minutes
    while fleet.now < end:
        fleet.run_until(min(end, fleet.now + 10))
        say(f"  working: {60 * minutes - (end - fleet.now):.0f} of {60 * minutes:.0f} s")
    costs, hours = fleet.table.costs, minutes / 60
    return Steady(
        {kind: n / fleet.shards / hours for kind, n in costs.writes.items()},
        costs.read_calls / workers / hours,
        costs.rows_read / workers / hours,
        costs.read_units / workers / hours,
        _ticks_ms(fleet),
    )


def _reads(workers: int, shards: int, minutes: float, say: Callable[[str], None]) -> Steady:
    say(f"{workers:,} workers on {shards:,} shards, to compare what they read")
    fleet = Fleet(shards, workers)
    _settle(fleet, say)
    return _work(fleet, workers, minutes, say)


def _lose(fleet: Fleet, victim: int, say: Callable[[str], None]) -> float:
    fleet.dead.add(victim)
    seconds = fleet.run_until_owned(60)
    balanced = seconds + fleet.run_until_settled(60)
    say(f"  one died: its shards were owned after {seconds:.2f} s, shared after {balanced:.2f} s")
    return seconds


def _ticks_ms(fleet: Fleet) -> tuple[float, ...]:
    return tuple(sorted(1000 * seconds for seconds in fleet.tick_seconds))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Log nothing, and collect no garbage: that would look at all workers' rows in each tick."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        logging.disable(logging.NOTSET)


def main() -> int:
    """Print the table; 1 if a target is missed."""
    parser = argparse.ArgumentParser("python -m bench.leasing", description=__doc__)
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of virtual time to work")
    parser.add_argument("--processes", action="store_true", help="real processes instead")
    asked = parser.parse_args()
    if asked.processes:
        root = Path(__file__).parent.parent
        command = [sys.executable, "-m", "pytest", "-q", "-s", PROCESSES_TEST]
        return subprocess.call(command, cwd=root)
    print(
        f"{asked.shards:,} shards, {asked.workers:,} workers, leases of "
        f"{TIMES.lease_seconds:.0f} s; all times are virtual but CPU",
        flush=True,
    )
    measured = measure(
        asked.shards, asked.workers, asked.minutes, lambda line: print(line, flush=True)
    )
    print_plainly(measured)
    print(f"memory of it all: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    return 1 if any(figure.met is False for figure in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
