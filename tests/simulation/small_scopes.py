"""A small world, with every fault at every call: `python -m tests.simulation.small_scopes`.

Two workers, two shards, one split, a hand-over. A run without faults makes some hundreds of calls
to table and stream. Each of them in turn meets each fate below, one for each run: all schedules
with one fault, or with one call that is overtaken by others. `--pairs N` adds N pairs of faults
that are drawn; `--pairs-of-writes` runs every pair of faults at writes of lease rows instead.
"""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
import time
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from shardline.core.positions import LATEST, TRIM_HORIZON
from tests.simulation.faults import Fault
from tests.simulation.history import Checkpointed, Delivered
from tests.simulation.knobs import choose_knobs
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardline.core.positions import Latest, TrimHorizon
    from tests.simulation.clockwork import Process

SEED = 4
LEASES = 3
FATES = (
    "request lost", "reply lost", "applied late", "delayed",
    "crash", "kill runner", "pause keeper", "pause runner", "sleep",
)  # fmt: skip

FATES_OF_WRITES = ("request lost", "reply lost", "applied late", "crash")

KNOBS = replace(
    choose_knobs(Random(0), peaceful=True),
    streams=1, shards=2, workers=2, lanes=1, lease_seconds=3.0, checkpoint_seconds=0.0,
    capacity=None, batch_records=3, read_ahead_records=5, memory_bytes=10_000_000,
    poll_seconds=1.0, stall_seconds=9.0, silence_seconds=9.0, put_seconds=0.6, work_seconds=0.01,
    empty_page_every=0, stale_listing_one_in=0, status_delay_ms=0, limited=False,
    death_signal=True, one_name=False, start=TRIM_HORIZON,
)  # fmt: skip


class Result(NamedTuple):
    failure: str
    calls: int
    """How many calls were made before healing began."""
    digest: str
    """Names the history: what was delivered and checkpointed, by whom, in which order."""
    writes: tuple[int, ...]
    """Which of the calls before healing wrote a lease row."""


def run(
    script: dict[int, str], start: TrimHorizon | Latest = TRIM_HORIZON, split_at: float = 3.5
) -> Result:
    """Run the world with the fates of single calls."""
    knobs = replace(KNOBS, start=start)
    world = World(SEED, (Fault(split_at, "split", 0, 0.0),), knobs, LEASES)
    network, calls = world.network, 0
    network.script = script
    network.on_death = partial(_strike, world)

    def count() -> None:
        nonlocal calls
        calls = network.made

    world.clockwork.at(world.faulty_seconds, count)
    outcome = world.run()
    seen = [event for event in world.history.events if isinstance(event, Delivered | Checkpointed)]
    digest = hashlib.sha256(repr(seen).encode()).hexdigest()
    return Result(outcome.failure, calls, digest, tuple(n for n in network.writes if n <= calls))


def _strike(world: World, process: Process, fate: str) -> None:
    """Let something happen to the worker that makes the call, while the call is under way."""
    worker = next(w for w in world.workers if w.name == process.name)
    seconds = 1.3 * KNOBS.lease_seconds
    match fate:
        case "crash":
            worker.crash()
            world.clockwork.after(1.0, worker.start)
        case "kill runner":
            worker.kill_runner()
        case "pause keeper":
            worker.pause_keeper(seconds)
        case "pause runner":
            worker.pause_runner(seconds)
        case _:
            worker.pause_keeper(seconds)
            worker.pause_runner(seconds)


def single_faults(calls: int, step: int = 1, first: int = 1) -> Iterator[dict[int, str]]:
    """Return a script for each call and fate; with a step, for some of them."""
    scripts = [{call: fate} for call in range(1, calls + 1) for fate in FATES]
    yield from scripts[first - 1 :: step]


def pairs_of_faults(calls: int, count: int, seed: int) -> Iterator[dict[int, str]]:
    random = Random(seed)
    for _ in range(count):
        one, other = random.sample(range(1, calls + 1), 2)
        yield {one: random.choice(FATES), other: random.choice(FATES)}


def pairs_of_writes(run_one: Callable[[dict[int, str]], Result]) -> Iterator[dict[int, str]]:
    """Return every pair of fates of two writes: the second is one that follows the first fate.

    What is written after a fault is known once the world has run with it.
    """
    for call in run_one({}).writes:
        for fate in FATES_OF_WRITES:
            later = [n for n in run_one({call: fate}).writes if n > call]
            yield from ({call: fate, n: second} for n in later for second in FATES_OF_WRITES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1, help="run only one script in so many")
    parser.add_argument("--latest", action="store_true", help='start at "latest", split early')
    parser.add_argument("--pairs", type=int, default=0, help="pairs of faults besides")
    parser.add_argument("--pairs-of-writes", action="store_true", help="only these, but all")
    parser.add_argument("--skip", type=int, default=0, help="begin after so many schedules")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    run_one = partial(run, start=LATEST, split_at=0.25) if chosen.latest else run
    began, whole = time.monotonic(), run_one({})
    print(f"{whole.calls} calls, {len(FATES)} fates: {whole.calls * len(FATES)} single faults")
    if chosen.pairs_of_writes:
        scripts = [*pairs_of_writes(run_one)]
    else:
        scripts = [*single_faults(whole.calls, chosen.step)]
        scripts += pairs_of_faults(whole.calls, chosen.pairs, seed=1)
    ran, failed, digests = 0, 0, {whole.digest}
    for script in scripts[chosen.skip :]:
        result = run_one(script)
        ran += 1
        digests.add(result.digest)
        if result.failure:
            failed += 1
            print(f"{script}: {result.failure}"[:300], flush=True)
        if time.monotonic() - began > chosen.seconds:
            break
    print(
        f"{ran} of {len(scripts)} schedules, {failed} failed, {len(digests)} different histories, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if failed or whole.failure else 0


if __name__ == "__main__":
    sys.exit(main())
