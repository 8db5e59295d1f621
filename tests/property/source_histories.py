"""Random lives of a query over a stream that trims, hides, cuts and stutters; one seed, one life.

`python -m tests.property.source_histories --seeds 10000` runs many; `--seed 17` runs one again.
Every record must be delivered in order or lie in a gap on record, every batch that is run again
must hold the same records, and nothing may be called a gap in a life that is shorter than the
retention.
"""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardline.core.gaps import START_GRACE
from shardline.core.positions import TRIM_HORIZON, AtTime, Position
from shardline.errors import GapError, PromiseBroken, ServiceError, ServiceUnreachable, Throttled
from shardline.services.wire.columns import time_column
from tests.property.planning_query import KEYS, Crash, Query, TableWorld, World
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from shardline.core.shards import Shard
    from shardline.services.port import Page, StreamService

SKEW = timedelta(seconds=2)
RETENTION_SECONDS = 24 * 3600
QUIET_SECONDS = 13.0
"""When nothing came for so long, which is more than two listings, everything has come."""


def emptied(page: Page, iterator: str) -> Page:
    """Return an empty page that comes before a page: as far behind as its first record."""
    behind = page.behind_ms
    if behind is not None:
        lag = page.service_time - time_column(page.records)[0].as_py()
        behind = max(1, int(lag / timedelta(milliseconds=1)))
    return replace(page, records=page.records.slice(0, 0), next_iterator=iterator, behind_ms=behind)


class HardService:
    """A service of many machines: some are slow, some stale, and answers get lost."""

    def __init__(self, inner: Any, chance: random.Random) -> None:
        self._inner = inner
        self._chance = chance
        self.failures = 0.0
        self.stale = 0.0
        self.empty = 0.0
        self._before: tuple[Shard, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list_shards(self) -> tuple[Shard, ...]:
        self._fail()
        listed: tuple[Shard, ...] = self._inner.list_shards()
        if self._before and self._chance.random() < self.stale:
            return self._before
        self._before = listed
        return listed

    def open(self, shard_id: str, position: Position) -> str:
        self._fail()
        iterator: str = self._inner.open(shard_id, position)
        return iterator

    def read(self, iterator: str, max_records: int) -> Page:
        self._fail()
        if self._chance.random() < self.failures:
            raise Throttled("too many reads")
        page: Page = self._inner.read(iterator, max_records)
        if page.records.num_rows and self._chance.random() < self.empty:
            return emptied(page, iterator)
        return page

    def _fail(self) -> None:
        if self._chance.random() < self.failures / 10:
            raise ServiceUnreachable("the answer was cut")


class HardWorld(World):
    """A world whose service is hard, and which remembers when each record arrived."""

    def __init__(self, inner: World, chance: random.Random) -> None:
        self.inner = inner
        self.hard = HardService(inner.service, chance)
        self.checker = inner.checker
        self.arrived: dict[str, list[tuple[int, datetime]]] = defaultdict(list)
        written = self.checker.wrote

        def wrote(shard_id: str, record: Any) -> None:
            self.arrived[shard_id].append((record.sequence, self.clock.now()))
            written(shard_id, record)

        self.checker.wrote = wrote  # type: ignore[method-assign]

    @property
    def service(self) -> StreamService:
        return self.hard

    @property
    def clock(self) -> Any:
        return self.inner.clock

    def excuse(self, shard_id: str, since: datetime, until: datetime) -> None:
        """Tell the checker of a gap: what arrived between two times."""
        for sequence, arrived_at in self.arrived[shard_id]:
            if since - SKEW <= arrived_at <= until + SKEW:
                self.checker.gap(shard_id, sequence - 1, sequence + 1)


@dataclass
class Life:
    """What came of one seed."""

    seed: int
    failure: str | None = None
    delivered: int = 0
    gaps: int = 0
    in_gaps: int = 0
    steps: int = 0


class _Run:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        table = chance.random() < 0.3
        inner = (
            TableWorld(chance.randint(1, 3)) if table else World(KinesisTwin(chance.randint(1, 3)))
        )
        self.world = HardWorld(inner, chance)
        self.began = self.world.clock.now()
        self.started = False
        self.pauses = chance.random() < 0.5
        """Whether this life has pauses of days."""
        if chance.random() < 0.7:
            self.world.hard.failures = chance.choice([0.01, 0.05])
        self.world.hard.stale = chance.choice([0.0, 0.0, 0.2])
        self.world.hard.empty = chance.choice([0.0, 0.3, 0.8])
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
            ("put", "burst", "split", "merge", "pass", "batch", "crash", "restart"),
            (6, 2, 1, 1, 4, 10, 1.5, 0.7),
        )[0]
        match action:
            case "put":
                inner.put(chance.choice(KEYS))
            case "burst":
                for _ in range(chance.randint(2, 60)):
                    inner.put(chance.choice(KEYS))
            case "split":
                inner.split(chance.randrange(20))
            case "merge":
                inner.merge(chance.randrange(20))
            case "pass":
                self.pass_time()
            case "batch":
                self.batch(None)
            case "crash":
                self.batch(chance.choice(["planned", "reading", "read"]))
            case "restart":
                self.query.restart()

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
        except (Crash, GapError, ServiceError):
            self.query.restart()
        self.tell_gaps()

    def tell_gaps(self) -> None:
        if self.query.offsets:
            if not self.started:  # what expired before, or soon after, was not asked for
                self.started = True
                horizon = self.world.clock.now() - timedelta(seconds=RETENTION_SECONDS)
                for shard_id in list(self.world.arrived):
                    self.world.excuse(shard_id, self.began, horizon + START_GRACE)
            for gap in self.query.last().gaps:
                self.world.excuse(gap.shard_id, gap.since, gap.until)

    def finish(self) -> None:
        hard = self.world.hard
        hard.failures = hard.stale = 0.0
        hard.empty = min(hard.empty, 0.3)
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
    life = Life(seed, steps=steps)
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
    return life


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many lives")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--keep-going", action="store_true", help="list all failing seeds")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    if chosen.seed is not None:
        seeds = range(chosen.seed, chosen.seed + 1)
    began, failed, delivered, gaps, in_gaps = time.process_time(), 0, 0, 0, 0
    for seed in seeds:
        life = live(seed)
        delivered, gaps, in_gaps = (
            delivered + life.delivered,
            gaps + life.gaps,
            in_gaps + life.in_gaps,
        )
        if life.failure:
            failed += 1
            print(f"seed {seed}: {life.failure}")
            if not chosen.keep_going:
                return 1
    spent = time.process_time() - began
    print(
        f"{len(seeds)} lives, {failed} failed: {delivered} records delivered, {in_gaps} expired in "
        f"{gaps} gaps on record; {spent:.0f} s of CPU"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
