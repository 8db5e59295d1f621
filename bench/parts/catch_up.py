"""Which share of the read quota (2 MiB a second and shard) a contender takes from a backlog.

From its first delivery to its last record: starting is another figure. The service gives a page in
advance, after which the shard is in debt and refuses reads. So a reader is at its end when the
debt is paid, and one that always reads as soon as it may has a share of 1, whatever its pages are.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench.contenders import Place, running
from bench.workload.processes import usage_of
from bench.workload.records import RECORD_BYTES, SHARD_READ_BYTES_PER_SECOND
from bench.workload.service import kinesis
from bench.workload.trial import START_SECONDS, STREAM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.contenders import Contender
    from bench.workload.deliveries import Delivery

SHARDS: Final = (1, 4, 16)
RECORDS: Final = 24_000
"""Of each shard: 11 seconds at the quota."""
QUICK_RECORDS: Final = 16_000
KEY_BYTES: Final = 5
SLOWEST: Final = 0.1
"""A share below this one is not waited for."""


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


def measure(
    contender: Contender, *, quick: bool = False, shards: Sequence[int] = SHARDS
) -> dict[str, Any]:
    """Return the share at each number of shards."""
    records = QUICK_RECORDS if quick else RECORDS
    return {str(n): _measure(contender, n, records) for n in shards if not quick or n <= 4}


def _measure(contender: Contender, shards: int, records: int) -> dict[str, Any]:
    with TemporaryDirectory(prefix="bench-") as folder, kinesis() as service:
        place = Place(service.endpoint_url, STREAM, shards, Path(folder))
        service.create(STREAM, shards)
        service.fill(STREAM, shards, records)
        with running(contender, place) as started:
            started.log.wait_for(1, START_SECONDS, started.check)
            before = usage_of(started.process.pid)
            quota_seconds = records * RECORD_BYTES / SHARD_READ_BYTES_PER_SECOND
            came = started.log.records
            started.log.wait_for(shards * records, quota_seconds / SLOWEST, started.check)
            after = usage_of(started.process.pid)
            cpu = (after.cpu_seconds - before.cpu_seconds) / (started.log.records - came) * 1e6
            return {
                "share": round(share_of(started.log.deliveries, shards), 3),
                "cpu_seconds_per_million": round(cpu, 1),
                "memory_mib": round(after.memory_mib),
            }
