"""Two apps at once on one stream of full shards: pushed by enhanced fan-out, and polled.

Each app is `shardline run --engine process` with a lease table of its own. Polled, both share the
2 MiB a second and five reads a second of each shard; pushed, each has 2 MiB of its own.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.contenders import CONTENDERS, Place, running
from bench.figures import Figure
from bench.workload.deliveries import delays, percentile
from bench.workload.records import SHARD_RECORDS_PER_SECOND
from bench.workload.service import kinesis
from bench.workload.trial import FIRST_RECORDS, GRACE_SECONDS, START_SECONDS, WARM_SECONDS
from bench.workload.writer import Writing, result, start

if TYPE_CHECKING:
    from bench.contenders import Running

STREAM: Final = "bench"
SHARDS: Final = 16
QUICK_SHARDS: Final = 4
SECONDS: Final = 8.0
QUICK_SECONDS: Final = 5.0
APPS: Final = ("billing", "search")
WAYS: Final = {"fan-out": "consumer-fan-out", "polling": "consumer-process"}


class Followed(NamedTuple):
    """What one app made of the load."""

    delivered: float
    """Share of the records of the window that came."""
    p50_seconds: float
    p95_seconds: float


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """Measure for `python -m bench`: each figure has a value for each app."""
    shards = QUICK_SHARDS if quick else SHARDS
    found = []
    for way, contender in WAYS.items():
        apps, late_seconds = follow(contender, shards, QUICK_SECONDS if quick else SECONDS)
        against = f"two apps, {shards} full shards, {way}"
        note = f"writer late by {late_seconds:.2f} s"
        for what, unit in (("delivered", ""), ("p50_seconds", "s"), ("p95_seconds", "s")):
            values = tuple(getattr(app, what) for app in apps)
            found.append(Figure(what.removesuffix("_seconds"), against, values, unit, note))
    return [figure.as_json() for figure in found]


def follow(contender: str, shards: int, seconds: float) -> tuple[list[Followed], float]:
    """Run the apps under the load; return what each made of it, and how late the writer was."""
    with ExitStack() as stack:
        service = stack.enter_context(kinesis())
        service.create(STREAM, shards)
        service.fill(STREAM, shards, FIRST_RECORDS)
        apps: list[Running] = []
        for app in APPS:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-")))
            place = Place(service.endpoint_url, STREAM, shards, folder, app=app)
            apps.append(stack.enter_context(running(CONTENDERS[contender], place)))
        for each in apps:
            each.log.wait_for(FIRST_RECORDS * shards, START_SECONDS, each.check)
        writing = Writing(
            service.endpoint_url,
            STREAM,
            shards,
            SHARD_RECORDS_PER_SECOND,
            WARM_SECONDS + seconds,
            first_number=FIRST_RECORDS,
        )
        writer = start(writing)
        time.sleep(WARM_SECONDS)
        began = time.time()
        time.sleep(seconds - 0.5)
        ended = time.time()
        written = result(writer, seconds=60)
        time.sleep(GRACE_SECONDS)
        put = FIRST_RECORDS * shards + written.records
        return [_followed(each, put, began, ended) for each in apps], written.late_seconds


def _followed(app: Running, all_put: int, began: float, ended: float) -> Followed:
    """Return the figures of the records put between two moments; what is missing counts as such."""
    app.check()
    app.log.read_on()
    found = delays(app.log.deliveries, began, ended)
    came = sum(weight for _, weight in found)
    put = came + max(0, all_put - app.log.records)
    return Followed(
        came / put if put else 0.0, percentile(found, 0.5, put), percentile(found, 0.95, put)
    )
