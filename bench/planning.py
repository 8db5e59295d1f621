"""What a plan and a lease tick cost with 10, 1,000 and 10,000 shards, and how that grows.

`python -m bench.planning` prints the table. A plan is all that the core decides for one batch:
settling what was committed, where to look in each shard, and writing the offset down.
"""

from __future__ import annotations

import gc
import logging
import math
from datetime import UTC, datetime, timedelta
from typing import Final

from bench.figures import Figure, cpu_seconds, print_plainly
from bench.leasing import Fleet, Listing
from shardline.core import planning
from shardline.core.offsets import Offset
from shardline.core.positions import TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber

SHARDS: Final = (10, 1_000, 10_000)
WORKERS: Final = {10: 2, 1_000: 10, 10_000: 20}
ROUNDS: Final = 5
MOST_PLAN_MS: Final = 100.0
LINEAR: Final = 1.2
"""The exponent that still counts as growing with the number of shards, and no faster."""
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
RETENTION: Final = timedelta(days=1)


def run(rounds: int = ROUNDS) -> list[Figure]:
    """Measure plans, then ticks."""
    plans = {count: _plan(count, rounds) for count in SHARDS}
    ticks = {count: _ticks(count) for count in SHARDS}
    measured = [
        Figure(
            f"a plan, {count:,} shards",
            "CPU",
            taken,
            "ms",
            target=MOST_PLAN_MS if count == max(SHARDS) else None,
            at_most=True,
            held_back="the order of the lineage (a third) and the offset's text (a quarter)",
        )
        for count, taken in plans.items()
    ]
    measured += [
        Figure(
            f"a lease tick, {count:,} shards",
            "CPU",
            taken,
            "ms",
            note=f"{WORKERS[count]} workers, table in memory",
        )
        for count, taken in ticks.items()
    ]
    measured.append(
        Figure(
            "how plans grow, 1,000 to 10,000 shards",
            "1 is with the shards",
            (_growth(plans[1_000], plans[10_000]),),
            "power",
            target=LINEAR,
            at_most=True,
            held_back="objects of 10,000 shards no longer fit into the cache",
        )
    )
    return measured


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure for `python -m bench`."""
    return run(2 if quick else ROUNDS)


def _plan(count: int, rounds: int) -> tuple[float, ...]:
    listed = Listing(count).list_shards()
    first = planning.settle(
        Offset(TRIM_HORIZON), listed, created_at=NOW, now=NOW, retention=RETENTION
    )
    sights = {
        shard.id: planning.Sight(After(SequenceNumber(str(10**55 + n))), NOW)
        for n, shard in enumerate(listed)
    }
    committed = planning.next_offset(first, sights)

    def plan() -> object:
        ground = planning.settle(committed, listed, created_at=NOW, now=NOW, retention=RETENTION)
        planning.looks(ground.standpoints, now=NOW, max_records=1_000_000)
        planned = planning.next_offset(ground, sights)
        planning.holds_news(committed, planned)
        return planned.to_json()

    return tuple(cpu_seconds(plan, max(1, 2_000 // count)) * 1000 for _ in range(rounds))


def _ticks(count: int) -> tuple[float, ...]:
    """Return the CPU time of each tick of a fleet that has settled, in milliseconds."""
    logging.disable(logging.CRITICAL)
    try:
        fleet = Fleet(count, WORKERS[count])
        fleet.run_until_settled(60)
        gc.collect()
        fleet.tick_seconds = []
        fleet.run_until(fleet.now + 5)
        return tuple(seconds * 1000 for seconds in fleet.tick_seconds)
    finally:
        logging.disable(logging.NOTSET)


def _growth(few: tuple[float, ...], many: tuple[float, ...]) -> float:
    return math.log10(min(many) / min(few))


def main() -> None:
    """Print the table."""
    print_plainly(run())


if __name__ == "__main__":
    main()
