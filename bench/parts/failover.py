"""What a key feels when a worker is killed, when one is deployed, and while shards split and merge.

Three workers share a stream of four shards; one is stopped, then one killed. For each event: the
longest time in which nothing of some key came, the records that came again, and those that did not
come.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench.contenders import Contender, Place, Running
from bench.workload.records import name_of
from bench.workload.service import Kinesis, kinesis
from bench.workload.trial import FIRST_RECORDS, START_SECONDS, STREAM
from bench.workload.writer import Writing, result, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.workload.deliveries import Delivery

SHARDS: Final = 4
WORKERS: Final = 3
SHARE_SECONDS: Final = 40.0
"""For so long all workers are waited for when one delivers."""
KEYS: Final = 16
"""Of each shard."""
PER_SECOND: Final = 40.0
"""Records of each shard, so that something of each key comes every 0.4 s."""
BEFORE_SECONDS: Final = 4.0
SECONDS: Final = {"kill": 18.0, "deploy": 9.0, "storm": 13.0}
STORM: Final = (8, 4, 8)
"""To how many shards the stream is brought, one after the other."""
DRAIN_SECONDS: Final = 60.0
"""For so long what is missing is waited for after the last put."""


class Fleet:
    """Workers of one app, all started at once."""

    def __init__(self, contender: Contender, service: Kinesis, folder: Path) -> None:
        self._contender = contender
        app = f"failover-{time.time_ns()}"
        self._place = Place(
            service.endpoint_url, STREAM, SHARDS, folder, app=app, shared=folder, detail=True
        )
        self._started: list[Running] = []
        self._written = FIRST_RECORDS
        self.service = service

    def start(self) -> None:
        """Start one more worker."""
        name = f"worker-{len(self._started) + 1}"
        folder = self._place.folder / name
        folder.mkdir()
        place = replace(self._place, folder=folder, worker=name)
        self._started.append(Running(self._contender, place))

    def share(self) -> None:
        """Write until each of the workers delivers, or some of them for a while."""
        deadline, some = time.monotonic() + START_SECONDS, False
        while time.monotonic() < deadline:
            since = time.time()
            self._write(3.0)
            time.sleep(1.0)
            deliver = [any(x.newest_put > since for x in self._read(w)) for w in self._started]
            if all(deliver):
                return
            if any(deliver) and not some:
                some, deadline = True, time.monotonic() + SHARE_SECONDS
        if not some:
            raise TimeoutError(f"no worker delivered within {START_SECONDS:.0f} s")

    @property
    def first_record_seconds(self) -> float:
        """From the start of a worker to its first delivery, of the first one that had one."""
        return min(x.at - w.started_at for w in self._started for x in w.log.deliveries[:1])

    def busiest(self) -> Running:
        """Return the worker that delivered most of late, of those that run."""
        running = [worker for worker in self._started if worker.process.poll() is None]
        newest = max(x.at for worker in running for x in self._read(worker))
        return max(
            running, key=lambda w: sum(x.count for x in w.log.deliveries if x.at > newest - 5)
        )

    def during(self, event: Callable[[], None], seconds: float) -> dict[str, float]:
        """Write for so long, with an event in between; return what the keys felt."""
        first, writer, since = self._written, *self._begin(seconds)
        time.sleep(BEFORE_SECONDS)
        event()
        written = result(writer, 2 * seconds + 60)
        deadline = time.monotonic() + DRAIN_SECONDS
        while True:
            found = felt(self._deliveries(), first, written.records, since, time.time())
            if not found["missing"] or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    def kill_all(self) -> None:
        """Kill every worker."""
        for worker in self._started:
            worker.kill()

    def _begin(self, seconds: float) -> tuple[Any, float]:
        place = self._place
        writing = Writing(
            place.endpoint_url,
            STREAM,
            SHARDS,
            PER_SECOND,
            seconds,
            keys=KEYS,
            first_number=self._written,
        )
        self._written += round(PER_SECOND * seconds)  # more than any key gets
        return start(writing), time.time()

    def _write(self, seconds: float) -> None:
        writer, _ = self._begin(seconds)
        result(writer, seconds + 60)

    def _read(self, worker: Running) -> list[Delivery]:
        worker.log.read_on()
        return worker.log.deliveries

    def _deliveries(self) -> list[Delivery]:
        found = [each for worker in self._started for each in self._read(worker)]
        return sorted(found, key=lambda each: each.at)


def felt(
    deliveries: Iterable[Delivery], first_number: int, written: int, since: float, until: float
) -> dict[str, float]:
    """Return the longest silence of a key, and how many records came again or not yet.

    A key of which records are missing is silent until now. All keys were written alike, some once
    more or less than others.
    """
    times = {name_of(key): [since] for key in range(SHARDS * KEYS)}
    seen: dict[str, set[int]] = {key: set() for key in times}
    repeats = 0
    for each in deliveries:
        for key, number in each.records:
            if number <= first_number:
                continue
            if number in seen[key]:
                repeats += 1
            else:
                seen[key].add(number)
                times[key].append(each.at)
    for key, numbers in seen.items():
        if len(numbers) < written // len(seen) - 1:
            times[key].append(until)
    gaps = (after - before for of_key in times.values() for before, after in pairwise(of_key))
    return {
        "silence_seconds": round(max(gaps, default=0.0), 2),
        "repeats": repeats,
        "missing": written - sum(map(len, seen.values())),
    }


def measure(contender: Contender, *, quick: bool = False) -> dict[str, Any]:
    """Return what is felt at each event."""
    del quick
    with TemporaryDirectory(prefix="bench-") as folder, kinesis() as service:
        service.create(STREAM, SHARDS)
        service.limit(enabled=True)
        fleet = Fleet(contender, service, Path(folder))
        try:
            for _ in range(WORKERS):
                fleet.start()
            fleet.share()
            found: dict[str, Any] = {"first_record_seconds": round(fleet.first_record_seconds, 1)}
            found["storm"] = fleet.during(lambda: _storm(service), SECONDS["storm"])
            found["deploy"] = fleet.during(fleet.busiest().stop, SECONDS["deploy"])
            found["kill"] = fleet.during(fleet.busiest().kill, SECONDS["kill"])
        finally:
            fleet.kill_all()
    return found


def _storm(service: Kinesis) -> None:
    for shards in STORM:
        service.client.update_shard_count(
            StreamName=STREAM, TargetShardCount=shards, ScalingType="UNIFORM_SCALING"
        )
        service.wait_until_active(STREAM)
        time.sleep(1.0)
