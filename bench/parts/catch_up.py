"""Which share of the read quota (2 MiB a second and shard) a contender takes from a backlog.

From its first delivery to its last record: starting is another figure. The service gives a page in
advance, after which the shard is in debt and refuses reads. So a reader is at its end when the
debt is paid, and one that always reads as soon as it may has a share of 1, whatever its pages are.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench.contenders import Place, kcl, running
from bench.workload.processes import usage_of
from bench.workload.records import RECORD_BYTES, SHARD_READ_BYTES_PER_SECOND
from bench.workload.service import Kinesis, kinesis
from bench.workload.trial import START_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.contenders import Contender
    from bench.workload.deliveries import Delivery

SHARDS: Final = (1, 4, 16, 64)
"""The last one for the main contenders only."""
QUICK_SHARDS: Final = SHARDS[:2]
RECORDS: Final = 16_000
"""Of each shard: 7.6 seconds at the quota."""
MANY_RECORDS: Final = 6_000
"""Of each of 64 shards, which no contender can read at the quota on two cores."""
VARIABLE: Final = "BENCH_BACKLOGS"
"""Where the service with the backlogs is: one for the whole run."""
KEY_BYTES: Final = 5
SLOWEST: Final = 0.1
"""A share below this one is not waited for."""
PATIENCE_SECONDS: Final = 30.0
LIGHT_SHARDS: Final = 10
"""Who follows so many full shards reads the backlogs of one and of four shards side by side."""


def share_of(deliveries: Sequence[Delivery], shards: int) -> float:
    """Return the share of the quota that was taken from the first delivery on."""
    began = min(each.at for each in deliveries)
    by_shard: dict[str, list[Delivery]] = {}
    for each in sorted(deliveries, key=lambda each: each.at):
        by_shard.setdefault(each.shard_id, []).append(each)
    rate = SHARD_READ_BYTES_PER_SECOND * shards / len(by_shard)
    ended = max(_debt_free_at(of_one, began, rate) for of_one in by_shard.values())
    size = sum(each.count for each in deliveries) * (RECORD_BYTES + KEY_BYTES)
    return size / (SHARD_READ_BYTES_PER_SECOND * shards * (ended - began + 1))


def _debt_free_at(deliveries: Sequence[Delivery], began: float, rate: float) -> float:
    """Return when the bucket of a shard, which holds one second, is empty and not below."""
    level, at = rate, began
    for each in deliveries:
        level = min(rate, level + (each.at - at) * rate)
        level -= each.count * (RECORD_BYTES + KEY_BYTES)
        at = each.at
    return at + max(0.0, -level) / rate


@contextmanager
def backlogs(*, quick: bool) -> Iterator[Kinesis]:
    """Run a service with a full stream for each number of shards: all contenders read the same."""
    if VARIABLE in os.environ:
        yield Kinesis(os.environ[VARIABLE])
        return
    with kinesis() as service:
        for shards in QUICK_SHARDS if quick else SHARDS:
            service.create(_stream(shards), shards)
            service.fill(_stream(shards), shards, _records(shards))
        yield service


def measure(contender: Contender, *, quick: bool = False) -> dict[str, Any]:
    """Return the share at each number of shards; one that fails has its error instead."""
    sizes = QUICK_SHARDS if quick else SHARDS if contender.main else SHARDS[:-1]
    found: dict[str, Any] = {}
    light = contender.expected_shards >= LIGHT_SHARDS

    def measure_one(shards: int) -> None:
        try:
            found[str(shards)] = _measure(contender, service, shards)
        except (RuntimeError, TimeoutError) as error:
            found[str(shards)] = {"error": str(error)}

    with backlogs(quick=quick) as service:
        with ThreadPoolExecutor(2 if light else 1) as pool:
            list(pool.map(measure_one, sizes[:2]))
        for shards in sizes[2:]:
            measure_one(shards)
    if not any("share" in each for each in found.values()):
        raise RuntimeError(next(iter(found.values()))["error"])
    return found


def _measure(contender: Contender, service: Kinesis, shards: int) -> dict[str, Any]:
    records = _records(shards)
    with TemporaryDirectory(prefix="bench-") as folder:
        app = f"{kcl.KNOWN_APP}-{shards}"
        place = Place(service.endpoint_url, _stream(shards), shards, Path(folder), app=app)
        with running(contender, place) as started:
            log = started.log
            log.wait_for(1, START_SECONDS, started.check)
            before, came = usage_of(started.process.pid), log.records
            quota_seconds = records * RECORD_BYTES / SHARD_READ_BYTES_PER_SECOND
            all_came, share = True, 0.0
            try:
                seconds = max(quota_seconds / SLOWEST, PATIENCE_SECONDS)
                log.wait_for(shards * records, seconds, started.check)
            except TimeoutError:
                all_came = False
            after = usage_of(started.process.pid)
            if all_came:
                share = share_of(log.deliveries, shards)
            else:
                waited = time.time() - min(each.at for each in log.deliveries)
                share = log.records / (shards * records) * quota_seconds / waited
            cpu = (after.cpu_seconds - before.cpu_seconds) / max(1, log.records - came) * 1e6
            return {
                "share": round(share, 3),
                "all_came": all_came,
                "cpu_seconds_per_million": round(cpu, 1),
                "memory_mib": round(after.memory_mib),
            }


def _stream(shards: int) -> str:
    return f"backlog-{shards}"


def _records(shards: int) -> int:
    return MANY_RECORDS if shards > 16 else RECORDS
