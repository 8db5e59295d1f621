"""Random lives of a query over a stream that trims, hides, cuts and stutters; one seed, one life.

`python -m tests.property.source_histories --seeds 10000` runs many; with a seed, that one again.
Every record must be delivered in order or lie in a gap on record, every batch that is run again
must hold the same records, availableNow must end with everything delivered, and nothing may be
called a gap in a life that is shorter than the retention.
"""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import logging
import random
import secrets
import signal
import sys
import time
import traceback
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shardline.core.gaps import START_GRACE
from shardline.core.positions import TRIM_HORIZON, AtTime
from shardline.errors import GapError, PromiseBroken, ServiceError
from tests.property.hard_streams import MOST_BACK_MS, HardWorld, StampClock
from tests.property.planning_query import KEYS, Crash, Query, TableWorld, World
from tests.simulation.fast_twin import FastTwin
from tests.simulation.jobs import outcomes_of
from tests.twins.kinesis import EPOCH

RETENTION_SECONDS = 24 * 3600
QUIET_SECONDS = 13.0
"""When nothing came for so long, which is more than two listings, everything has come."""


@dataclass
class Life:
    """What came of one seed."""

    seed: int
    failure: str | None = None
    delivered: int = 0
    gaps: int = 0
    in_gaps: int = 0
    batches: int = 0
    crashes: int = 0
    cpu_seconds: float = 0.0


class _Run:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        table = chance.random() < 0.3
        self.clock = StampClock(EPOCH)
        shards = chance.randint(1, 3)
        inner = (
            TableWorld(shards, self.clock) if table else World(FastTwin(shards, clock=self.clock))
        )
        self.world = HardWorld(inner, chance)
        self.began = self.clock.now()
        self.clock.advance(1)
        self.started = False
        self.crashes = 0
        self.most_back_ms = chance.choice([0, 0, MOST_BACK_MS])
        self.pauses = chance.random() < 0.5
        """Whether this life has pauses of days."""
        if chance.random() < 0.7:
            self.world.hard.failures = chance.choice([0.01, 0.05])
        self.world.hard.stale = chance.choice([0.0, 0.0, 0.2])
        self.world.hard.empty = chance.choice([0.0, 0.3, 0.8])
        # Where the service never names its tip, hundreds of empty pages are taken for silence.
        self.world.hard.deserts = 0.0 if table else chance.choice([0.0, 0.0, 0.05])
        self.query = Query(
            self.world,
            start=TRIM_HORIZON if chance.random() < 0.7 else AtTime(self.began),
            max_records=chance.choice([None, 1, 7, 100, 1_000_000, 1_000_000]),
            fail_on_data_loss=False,
            seed=seed,
        )

    def step(self) -> None:
        chance, inner = self.chance, self.world.inner
        action = chance.choices(
            ("put", "burst", "split", "merge", "pass", "batch", "crash", "restart", "drain"),
            (6, 2, 1, 1, 4, 10, 2, 0.7, 0.3),
        )[0]
        match action:
            case "put":
                self.put()
            case "burst":
                for _ in range(chance.randint(2, 60)):
                    self.put()
            case "split":
                inner.split(chance.randrange(20))
            case "merge":
                inner.merge(chance.randrange(20))
            case "pass":
                self.pass_time()
            case "batch":
                self.batch(None)
            case "crash":
                crash_at = chance.choice(["planned", "reading", "read", None])
                if crash_at is None:
                    self.world.hard.crash_in = chance.randint(0, 30)
                self.batch(crash_at)
            case "restart":
                self.query.restart()
            case "drain":
                self.drain()

    def put(self) -> None:
        if self.most_back_ms:
            self.clock.back_ms = self.chance.randrange(self.most_back_ms + 1)
        self.world.inner.put(self.chance.choice(KEYS))
        self.clock.back_ms = 0

    def pass_time(self) -> None:
        choices = [0.1, 1, 3, 12, 400]
        if self.pauses:
            choices += [3600, 8 * 3600, 30 * 3600]
        elif (self.world.clock.now() - self.began).total_seconds() < RETENTION_SECONDS / 2:
            choices += [1800]
        seconds = self.chance.choice(choices)
        if seconds <= 12:
            with suppress(ServiceError):
                self.query.settle(seconds)
        else:
            self.world.clock.advance(seconds)

    def batch(self, crash_at: str | None) -> None:
        try:
            self.query.step_soon(crash_at, seconds=1.0)
        except (Crash, GapError, ServiceError) as error:
            self.crashes += isinstance(error, Crash)
            self.query.restart()
        self.world.hard.crash_in = None
        self.tell_gaps()

    def drain(self) -> None:
        """Run the query once with availableNow, which must not end before it has everything."""
        self.clock.advance(1)
        self.query.restart()
        self.query.set_target()
        try:
            while self.query.step() >= 0:
                self.tell_gaps()
        except (GapError, ServiceError):
            self.query.restart()
            self.tell_gaps()
            return
        self.tell_gaps()
        lost = self.world.checker.verdict().lost
        # What a stale listing hides is not there now.
        assert not lost or self.world.hard.stale, f"availableNow ended without {lost} records"
        self.query.restart()

    def tell_gaps(self) -> None:
        if self.query.offsets:
            if not self.started:  # what expired before, or soon after, was not asked for
                self.started = True
                horizon = self.world.clock.now() - timedelta(seconds=RETENTION_SECONDS)
                for shard_id in list(self.world.arrived):
                    self.world.excuse(shard_id, self.began, horizon + START_GRACE)
            last = self.query.last()
            self.world.recorded |= last.ranges.keys() | last.drained.keys()
            for gap in last.gaps:
                self.world.excuse(gap.shard_id, gap.since, gap.until)

    def finish(self) -> None:
        self.world.hard.calm_down()
        for _ in range(6):
            try:
                self.query.run_dry(QUIET_SECONDS)
            except (GapError, ServiceError):
                self.query.restart()
            else:
                break
            self.tell_gaps()
        self.tell_gaps()


def live(seed: int, steps: int = 60) -> Life:
    """Run one life and judge it."""
    run = _Run(seed)
    query = run.query
    tell = query.ranges

    def told_before_read(*arguments: Any) -> Any:
        ranges = tell(*arguments)
        run.tell_gaps()
        for gap, _ in query.planner._loss._pending:
            run.world.excuse(gap.shard_id, gap.since, gap.until)
        return ranges

    query.ranges = told_before_read  # type: ignore[method-assign, assignment]
    life, began = Life(seed), time.process_time()
    try:
        for _ in range(steps):
            run.step()
        run.finish()
        verdict = run.world.checker.verdict().require()
        life.delivered, life.in_gaps = verdict.delivered, verdict.in_gaps
        life.gaps = len(query.last().gaps) if query.offsets else 0
        lived = (run.world.clock.now() - run.began).total_seconds()
        if life.gaps and lived < RETENTION_SECONDS - 3600:
            life.failure = f"a false gap: {query.last().gaps[0]}"
    except (PromiseBroken, AssertionError) as error:
        life.failure = f"{type(error).__name__}: {error}"
    except Exception:  # of the harness or of what it runs: a failing seed, not the end of the run
        life.failure = traceback.format_exc().rstrip()
    life.batches, life.crashes = query.commits, run.crashes
    life.cpu_seconds = time.process_time() - began
    return life


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("only", nargs="?", type=int, metavar="SEED", help="replay only this one")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--fresh", action="store_true", help="begin at a seed nobody ran before")
    parser.add_argument("--seconds", type=float, help="stop after this much time")
    parser.add_argument("--keep-going", action="store_true", help="list all failing seeds")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes to run them in")
    chosen = parser.parse_args()
    if chosen.only is not None:
        chosen.first, chosen.seeds = chosen.only, 1
    first = secrets.randbelow(10**12) if chosen.fresh else chosen.first
    print(f"seeds from {first} on, at most {chosen.seeds}", flush=True)
    began, lives, ended = time.monotonic(), list[Life](), ""
    try:
        with closing(outcomes_of(live, range(first, first + chosen.seeds), chosen.jobs)) as running:
            for life in running:
                lives.append(life)
                if life.failure:
                    print(f"seed {life.seed}: {life.failure}")
                    print(f"replay: python -m tests.property.source_histories {life.seed}")
                    sys.stdout.flush()
                    if not chosen.keep_going:
                        break
                if chosen.seconds is not None and time.monotonic() - began > chosen.seconds:
                    break
    except KeyboardInterrupt:
        ended = "interrupted: "
    except Exception as error:
        ended = f"ended by {type(error).__name__} {error}: "
    print(ended + _summary(lives))
    return 1 if ended or any(life.failure for life in lives) else 0


def _summary(lives: list[Life]) -> str:
    if not lives:
        return "0 seeds"
    failed = sum(1 for life in lives if life.failure)
    slowest = max(lives, key=lambda life: life.cpu_seconds)
    return (
        f"{len(lives)} seeds, {failed} failed, the last {max(life.seed for life in lives)}: "
        f"{sum(life.batches for life in lives)} batches, "
        f"{sum(life.crashes for life in lives)} crashes, "
        f"{sum(life.delivered for life in lives)} records delivered, "
        f"{sum(life.in_gaps for life in lives)} expired in "
        f"{sum(life.gaps for life in lives)} gaps on record; "
        f"{sum(life.cpu_seconds for life in lives):.0f} s of CPU (the slowest, {slowest.seed}, "
        f"took {slowest.cpu_seconds:.1f} s)"
    )


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the counts are told all the same
    sys.exit(main())
