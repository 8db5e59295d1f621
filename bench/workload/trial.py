"""One contender on one stream: start it, write, and see what comes when, and what it costs."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.contenders import Contender, Place, Running, running
from bench.workload.deliveries import delays, percentile
from bench.workload.processes import Usage, usage_of
from bench.workload.service import Kinesis, kinesis
from bench.workload.writer import Writing, result, start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.workload.deliveries import Delivery

STREAM: Final = "bench"
FIRST_RECORDS: Final = 10
"""In each shard before a contender starts: it has started when it has delivered them all."""
START_SECONDS: Final = 150.0
WARM_SECONDS: Final = 2.0
"""A load is written for so long before it is measured."""
ROUNDS: Final = 3
"""A load is measured as a whole, and in so many rounds, for the spread."""
SHARD_MIB: Final = 14
"""What the service keeps of a full shard in one load."""
GRACE_SECONDS: Final = 1.5
"""Waited after the last put. What comes later than that was not followed."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a contender made of a load."""

    shards: int
    records_per_second: float
    """Written to each shard."""
    delivered: float
    """Share of the records of the window that came; all that are missing count as of the window."""
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    cpu_seconds_per_million: float
    memory_mib: float
    written: float
    """Share of the load; below 1 if the machine was too small for writer and service."""
    rounds: tuple[dict[str, float], ...] = ()
    """The figures of each third of the window, without what never came."""

    def as_json(self) -> dict[str, Any]:
        """Return it with rounded figures."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


class Trial:
    """A contender that has started and delivered the first records of every shard."""

    def __init__(self, service: Kinesis, contender: Running, place: Place) -> None:
        self.service = service
        self.running = contender
        self.place = place
        self._written = FIRST_RECORDS
        contender.log.wait_for(FIRST_RECORDS * place.shards, START_SECONDS, contender.check)

    @property
    def first_record_seconds(self) -> float:
        """From the start of the process to the first delivery."""
        return min(each.at for each in self.running.log.deliveries) - self.running.started_at

    @property
    def first_record_warm_seconds(self) -> float | None:
        """From a warm Spark session to the first delivery; None without Spark."""
        ready = self.running.ready_at
        if ready is None:
            return None
        return min(each.at for each in self.running.log.deliveries) - ready

    def load(self, per_second: float, seconds: float, warm_seconds: float = WARM_SECONDS) -> Load:
        """Write to all shards at a rate, and measure after a while."""
        place = self.place
        writing = Writing(
            place.endpoint_url,
            place.stream,
            place.shards,
            per_second,
            warm_seconds + seconds,
            first_number=self._written,
        )
        self._written += round(per_second * writing.seconds) + 1
        log = self.running.log
        log.read_on()
        came_before, writer = log.records, start(writing)
        time.sleep(warm_seconds)
        marks = [self._mark()]
        for _ in range(ROUNDS):
            time.sleep((seconds - 0.5) / ROUNDS)
            marks.append(self._mark())
        began, (ended, after) = marks[0].at, marks[-1]
        written = result(writer, seconds=60)
        time.sleep(GRACE_SECONDS)
        self.running.check()
        log.read_on()
        found = delays(log.deliveries, began, ended)
        came_in_time = sum(weight for _, weight in found)
        put = came_in_time + max(0, written.records - (log.records - came_before))
        return Load(
            place.shards,
            per_second,
            came_in_time / put if put else 0.0,
            percentile(found, 0.5, put),
            percentile(found, 0.95, put),
            percentile(found, 0.99, put),
            _cpu_per_million(log.deliveries, marks[0], marks[-1]),
            after.memory_mib,
            written.records / (place.shards * per_second * writing.seconds),
            tuple(_round(log.deliveries, a, b) for a, b in pairwise(marks)),
        )

    def _mark(self) -> _Mark:
        return _Mark(time.time(), usage_of(self.running.process.pid))


class _Mark(NamedTuple):
    at: float
    usage: Usage


def _cpu_per_million(deliveries: Sequence[Delivery], begin: _Mark, end: _Mark) -> float:
    came = sum(each.count for each in deliveries if begin.at <= each.at < end.at)
    cpu = end.usage.cpu_seconds - begin.usage.cpu_seconds
    return cpu / came * 1e6 if came else float("inf")


def _round(deliveries: Sequence[Delivery], begin: _Mark, end: _Mark) -> dict[str, float]:
    found = delays(deliveries, begin.at, end.at)
    came = sum(weight for _, weight in found)
    return {
        "p50_seconds": percentile(found, 0.5, came),
        "p99_seconds": percentile(found, 0.99, came),
        "cpu_seconds_per_million": _cpu_per_million(deliveries, begin, end),
        "memory_mib": end.usage.memory_mib,
    }


@contextmanager
def trial(contender: Contender, shards: int, app: str = "bench") -> Iterator[Trial]:
    """Start a service with a stream, and a contender on it."""
    memory = shards * SHARD_MIB
    with TemporaryDirectory(prefix="bench-") as folder, kinesis(memory) as service:
        place = Place(service.endpoint_url, STREAM, shards, Path(folder), app=app)
        service.create(STREAM, shards)
        service.fill(STREAM, shards, FIRST_RECORDS)
        with running(contender, place) as started:
            yield Trial(service, started, place)


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return [{name: _rounded(each) for name, each in one.items()} for one in value]
    if not isinstance(value, float):
        return value
    return None if value == float("inf") else float(f"{value:.3g}")
