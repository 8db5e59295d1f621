"""Streams that behave as real ones do at their worst: stale machines, and pages without records."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardline.core.positions import LATEST, Position
from shardline.errors import ServiceUnreachable, ShardNotFound, Throttled
from shardline.local.clock import Clock
from shardline.services.wire.columns import time_column
from tests.property.planning_query import Crash, World
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    import random

    from shardline.core.shards import Shard
    from shardline.services.port import Page, StreamService

SKEW = timedelta(seconds=2)
YOUNG_SECONDS = 600.0
"""A machine that is stale may not know a shard that is younger than this."""

MOST_BACK_MS = 900
"""By how much a record may be stamped before an earlier one."""


class Flaky(KinesisTwin):
    """A stream of which a stale machine knows some shards not."""

    hidden: frozenset[str] = frozenset()

    def list_shards(self) -> tuple[Shard, ...]:
        return tuple(shard for shard in super().list_shards() if shard.id not in self.hidden)

    def has_shard(self, shard_id: str) -> bool:
        return shard_id not in self.hidden and super().has_shard(shard_id)


class Sparse:
    """A service that gives so many empty pages after each opening before it gives a record."""

    def __init__(self, inner: Any, pages: int) -> None:
        self._inner = inner
        self._pages = pages
        self._left: dict[str, int] = {}
        self._opened: dict[str, tuple[str, Position]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open(self, shard_id: str, position: Position) -> str:
        iterator: str = self._inner.open(shard_id, position)
        if not isinstance(position, type(LATEST)):
            self._left[iterator] = self._pages
            self._opened[iterator] = (shard_id, position)
        return iterator

    def read(self, iterator: str, max_records: int) -> Page:
        left = self._left.pop(iterator, 0)
        page: Page = self._inner.read(iterator, max_records)
        if not left or not page.records.num_rows:
            return page
        place = self._opened.pop(iterator)
        following = self._inner.open(*place)  # each page has an iterator of its own, which lasts
        self._left[following], self._opened[following] = left - 1, place
        behind = None if page.behind_ms is None else page.behind_ms + left * 1000
        return replace(
            page, records=page.records.slice(0, 0), next_iterator=following, behind_ms=behind
        )


class SparseWorld(World):
    """A world whose service is sparse, with records on it already."""

    def __init__(self, inner: World, pages: int) -> None:
        self._inner = inner
        self._sparse = Sparse(inner.service, pages)
        self.checker = inner.checker

    @property
    def service(self) -> StreamService:
        return self._sparse

    @property
    def clock(self) -> Any:
        return self._inner.clock


class StampClock(Clock):
    """The clock of a service of many machines, which stamp records a little differently."""

    back_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.back_ms


def emptied(page: Page, iterator: str, left: int = 0) -> Page:
    """Return an empty page that comes before a page, with so many others in between."""
    behind = page.behind_ms
    if behind is not None:
        lag = page.service_time - time_column(page.records)[0].as_py()
        behind = max(1, int(lag / timedelta(milliseconds=1))) + left * 1000
    return replace(page, records=page.records.slice(0, 0), next_iterator=iterator, behind_ms=behind)


class HardService:
    """A service of many machines: some are slow, some stale, and answers get lost."""

    def __init__(self, inner: Any, clock: Clock, chance: random.Random) -> None:
        self._inner = inner
        self._clock = clock
        self._chance = chance
        self.failures = 0.0
        self.stale = 0.0
        self.empty = 0.0
        """How likely a page is empty though records come after it."""
        self.deserts = 0.0
        """How likely hundreds of empty pages come after an opening."""
        self.crash_in: int | None = None
        """After so many calls the driver is gone, in the middle of whatever it does."""
        self._before: tuple[Shard, ...] = ()
        self._listed_at: dict[str, float] = {}
        self._left: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def calm_down(self) -> None:
        """Answer almost well from now on."""
        self.failures = self.stale = self.deserts = 0.0
        self.empty = min(self.empty, 0.3)
        self._left.clear()

    def describe(self) -> Any:
        self._call()
        return self._inner.describe()

    def list_shards(self) -> tuple[Shard, ...]:
        self._call()
        listed: tuple[Shard, ...] = self._inner.list_shards()
        if self._before and self._happens(self.stale):
            return self._before
        self._before = listed
        for shard in listed:
            self._listed_at.setdefault(shard.id, self._clock.now_ms() / 1000)
        return listed

    def has_shard(self, shard_id: str) -> bool:
        self._call()
        found: bool = self._inner.has_shard(shard_id)
        return found and not self._is_unknown(shard_id)

    def open(self, shard_id: str, position: Position) -> str:
        self._call()
        if self._is_unknown(shard_id):
            raise ShardNotFound(f"a stale machine does not know {shard_id}")
        iterator: str = self._inner.open(shard_id, position)
        if self.deserts and position != LATEST and self._happens(self.deserts):
            self._left[iterator] = self._chance.randint(100, 400)
        return iterator

    def read(self, iterator: str, max_records: int) -> Page:
        self._call()
        if self._happens(self.failures):
            raise Throttled("too many reads")
        page: Page = self._inner.read(iterator, max_records)
        left = self._left.pop(iterator, 0)
        if not page.records.num_rows:
            return page
        if left:
            self._left[iterator] = left - 1
        if left or self._happens(self.empty):
            return emptied(page, iterator, left)
        return page

    def _is_unknown(self, shard_id: str) -> bool:
        now = self._clock.now_ms() / 1000
        young = now - self._listed_at.get(shard_id, now) < YOUNG_SECONDS
        return young and self._happens(self.stale / 4)

    def _call(self) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.crash_in = None
                raise Crash
        if self._happens(self.failures / 10):
            raise ServiceUnreachable("the answer was cut")

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._chance.random() < chance


class HardWorld(World):
    """A world whose service is hard, and which remembers when each record arrived."""

    def __init__(self, inner: World, chance: random.Random) -> None:
        self.inner = inner
        self.hard = HardService(inner.service, inner.clock, chance)
        self.checker = inner.checker
        self.arrived: dict[str, list[tuple[int, datetime]]] = defaultdict(list)
        self.recorded: set[str] = set()
        """Shards that an offset of the query names, so that another driver knows them."""
        self._excused: set[tuple[str, datetime, datetime]] = set()
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
        """Tell the checker of a gap: what arrived between two times, which are long past.

        Ancestors that no offset names are not known: the gap is theirs too, by its hash keys. A
        listing may have shown them to a driver that was gone before it wrote them down.
        """
        if (shard_id, since, until) in self._excused:
            return
        self._excused.add((shard_id, since, until))
        lost = [
            sequence
            for sequence, arrived_at in self.arrived[shard_id]
            if since - SKEW <= arrived_at <= until + SKEW
        ]
        if lost:  # but for the skew, times rise with the numbers
            self.checker.gap(shard_id, lost[0] - 1, lost[-1] + 1)
        for parent in self.checker._shards[shard_id].parents:
            if parent not in self.recorded:
                self.excuse(parent, since, until)
