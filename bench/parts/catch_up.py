"""Which share of the read quota (2 MiB a second and shard) a contender takes from a backlog.

From the first read that used up what a shard had saved to the last record delivered: starting, and
looking for the ends of a first batch, is another figure. The service gives a page in advance, after
which the shard is in debt and refuses reads. So a reader is at its end when all is delivered and
the debt is paid, and one that always reads as soon as it may has a share of 1, whatever its pages
and its batches are.
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
from bench.workload.records import RECORD_BYTES, SHARD_READ_BYTES_PER_SECOND
from bench.workload.service import Kinesis, kinesis
from bench.workload.trial import START_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.contenders import Contender
    from bench.workload.deliveries import Delivery
    from bench.workload.service import Reads

RECORDS: Final = {1: 16_000, 4: 16_000, 16: 36_000, 64: 6_000}
"""Of each shard: 7.6 seconds at the quota, and 17 for 16 shards, as the service takes a while for
the first page of each. 64 shards no contender can read at the quota on two cores."""
SHARDS: Final = tuple(RECORDS)
"""The last one for the main contenders only."""
QUICK_SHARDS: Final = SHARDS[:2]
KEY_BYTES: Final = 5
VARIABLE: Final = "BENCH_BACKLOGS"
"""Where the service with the backlogs is: one for the whole run."""
SLOWEST: Final = 0.1
"""A share below this one is not waited for."""
PATIENCE_SECONDS: Final = 30.0
LIGHT_SHARDS: Final = 16
"""Who follows so many full shards reads the backlogs of one and of four shards side by side."""


def share_of(reads: Sequence[Reads], deliveries: Sequence[Delivery], until: float = 0.0) -> float:
    """Return the share of the quota that came to user code, from when the quota was the limit.

    `until` is for how long the rest was waited for, if not all came.
    """
    began = min(each.limited for each in reads)
    ended = max(each.at for each in deliveries)
    ended = max(ended, until, *(each.free for each in reads))
    size = sum(each.count for each in deliveries) * (RECORD_BYTES + KEY_BYTES)
    return size / (SHARD_READ_BYTES_PER_SECOND * len(reads) * (ended - began + 1))


@contextmanager
def backlogs(*, quick: bool) -> Iterator[Kinesis]:
    """Run a service with a full stream for each number of shards: all contenders read the same."""
    if VARIABLE in os.environ:
        yield Kinesis(os.environ[VARIABLE])
        return
    with kinesis() as service:
        for shards in QUICK_SHARDS if quick else SHARDS:
            service.create(_stream(shards), shards)
            service.fill(_stream(shards), shards, RECORDS[shards])
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
    records = RECORDS[shards]
    with TemporaryDirectory(prefix="bench-") as folder:
        app = f"{kcl.KNOWN_APP}-{shards}"
        place = Place(service.endpoint_url, _stream(shards), shards, Path(folder), app=app)
        service.reads(place.stream)  # from here on they are its own
        with running(contender, place) as started:
            log = started.log
            log.wait_for(1, START_SECONDS, started.check)
            quota_seconds = records * RECORD_BYTES / SHARD_READ_BYTES_PER_SECOND
            all_came = True
            try:
                seconds = max(quota_seconds / SLOWEST, PATIENCE_SECONDS)
                log.wait_for(shards * records, seconds, started.check)
            except TimeoutError:
                all_came = False
            until = 0.0 if all_came else time.time()
            share = share_of(service.reads(place.stream), log.deliveries, until)
            return {"share": round(share, 3), "all_came": all_came}


def _stream(shards: int) -> str:
    return f"backlog-{shards}"
