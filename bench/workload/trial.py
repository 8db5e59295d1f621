"""One contender on one stream: start it, write, and see what comes when, and what it costs."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench.contenders import Contender, Place, Running, running
from bench.workload.deliveries import delays, percentile
from bench.workload.processes import usage_of
from bench.workload.service import Kinesis, kinesis
from bench.workload.writer import Writing, result, start

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAM: Final = "bench"
FIRST_RECORDS: Final = 10
"""In each shard before a contender starts: it has started when it has delivered them all."""
START_SECONDS: Final = 150.0
WARM_SECONDS: Final = 3.0
"""A load is written for so long before it is measured."""
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
    writer_late_seconds: float
    """Large if the machine was too small for writer and service."""

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

    def load(self, per_second: float, seconds: float) -> Load:
        """Write to all shards at a rate, and measure after a while."""
        place = self.place
        writing = Writing(
            place.endpoint_url,
            place.stream,
            place.shards,
            per_second,
            WARM_SECONDS + seconds,
            first_number=self._written,
        )
        self._written += round(per_second * writing.seconds) + 1
        log = self.running.log
        log.read_on()
        came_before, writer = log.records, start(writing)
        time.sleep(WARM_SECONDS)
        pid = self.running.process.pid
        began, before = time.time(), usage_of(pid)
        time.sleep(seconds - 0.5)
        ended, after = time.time(), usage_of(pid)
        written = result(writer, seconds=60)
        time.sleep(GRACE_SECONDS)
        self.running.check()
        log.read_on()
        found = delays(log.deliveries, began, ended)
        came_in_time = sum(weight for _, weight in found)
        put = came_in_time + max(0, written.records - (log.records - came_before))
        came = sum(each.count for each in log.deliveries if began <= each.at < ended)
        cpu = after.cpu_seconds - before.cpu_seconds
        return Load(
            place.shards,
            per_second,
            came_in_time / put if put else 0.0,
            percentile(found, 0.5, put),
            percentile(found, 0.95, put),
            percentile(found, 0.99, put),
            cpu / came * 1e6 if came else float("inf"),
            after.memory_mib,
            written.late_seconds,
        )


@contextmanager
def trial(contender: Contender, shards: int, app: str = "bench") -> Iterator[Trial]:
    """Start a service with a stream, and a contender on it."""
    with TemporaryDirectory(prefix="bench-") as folder, kinesis() as service:
        place = Place(service.endpoint_url, STREAM, shards, Path(folder), app=app)
        service.create(STREAM, shards)
        service.fill(STREAM, shards, FIRST_RECORDS)
        with running(contender, place) as started:
            yield Trial(service, started, place)


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if value == float("inf") else float(f"{value:.3g}")
