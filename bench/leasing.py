"""Many shards on many workers, in virtual time: how they settle, what it costs, how one is missed.

`python -m bench.leasing [--shards N --workers N]` prints a table. Every worker is a real
`Coordinator` on one lease table in memory that counts what it is asked for.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import logging
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardline.core.leasing_times import LeaseTimes
from shardline.core.shards import HASH_SPACE_END, After, HashRange, SequenceNumber, Shard
from shardline.leases.coordinator import Coordinator
from shardline.leases.memory import MemoryLeaseTable
from shardline.services.port import StreamDescription

if TYPE_CHECKING:
    from collections.abc import Collection

    from shardline.core.leasing_rows import Header, Heartbeat, LeaseRow
    from shardline.leases.port import RowPage

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = LeaseTimes(lease_seconds=10.0)
KCL_WRITES_PER_SHARD_HOUR = 1088


@dataclass
class Costs:
    """What the table was asked for: calls, and rows that were read."""

    writes: Counter[str] = field(default_factory=Counter)
    rows_read: int = 0
    read_calls: int = 0


class CountingTable(MemoryLeaseTable):
    """A lease table that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.costs = Costs()

    def _read(self, rows: int) -> None:
        self.costs.read_calls += 1
        self.costs.rows_read += rows

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        self._read(1)
        return super().read_header(app_name, stream_name)

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        page = super().scan_rows(app_name, stream_name, after, limit)
        self._read(len(page.rows))
        return page

    def read_rows(self, app_name: str, stream_name: str, shard_ids: Collection[str]) -> Any:
        self._read(len(shard_ids))
        return super().read_rows(app_name, stream_name, shard_ids)

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        beats = super().read_heartbeats(app_name, stream_name)
        self._read(len(beats))
        return beats

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        self.costs.writes["rows"] += 1  # a refused one is paid for as well
        super().swap_row(new, expected)

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        self.costs.writes["heartbeats"] += 1
        super().swap_heartbeat(new, expected)

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        self.costs.writes["headers"] += 1
        return super().bump(header, settled=settled)


class Listing:
    """A stream service that only lists."""

    finds_times = True

    def __init__(self, shards: int) -> None:
        step = (HASH_SPACE_END + 1) // shards
        ends = [(i + 1) * step - 1 for i in range(shards - 1)] + [HASH_SPACE_END]
        self._shards = tuple(
            Shard(f"shardId-{i:012d}", hash_range=HashRange(i * step, end))
            for i, end in enumerate(ends)
        )

    def describe(self) -> StreamDescription:
        return StreamDescription("orders", "arn", BIRTH, True, 86_400)

    def list_shards(self) -> tuple[Shard, ...]:
        return self._shards

    def has_shard(self, shard_id: str) -> bool:
        return any(shard.id == shard_id for shard in self._shards)


class Fleet:
    """Workers that tick once a second of virtual time, each at its own fraction of it."""

    def __init__(self, shards: int, workers: int) -> None:
        self.now = 0.0
        self.table = CountingTable()
        self.shards = shards
        self.tick_seconds: list[float] = []
        listing = Listing(shards)
        self.workers = [
            Coordinator(
                self.table,
                listing,  # type: ignore[arg-type] # it need not read
                "app",
                "orders",
                f"worker-{i:03d}",
                times=TIMES,
                clock=lambda: self.now,
                today=lambda: BIRTH + timedelta(seconds=self.now),
            )
            for i in range(workers)
        ]
        self._due = [(i * TIMES.tick_seconds / workers, i) for i in range(workers)]
        heapq.heapify(self._due)
        self.dead: set[int] = set()
        self.progress = 0

    def run_until(self, end: float) -> None:
        while self._due[0][0] <= end:
            self.now, i = heapq.heappop(self._due)
            if i in self.dead:
                continue
            worker = self.workers[i]
            began = time.process_time()
            worker.tick()
            self.tick_seconds.append(time.process_time() - began)
            self._work(worker)
            heapq.heappush(self._due, (self.now + TIMES.tick_seconds, i))
        self.now = end

    def held(self) -> list[int]:
        rows = MemoryLeaseTable.scan_rows(self.table, "app", "orders", None, self.shards).rows
        counts = Counter(row.lease_owner for row in rows)
        return sorted(counts[w.owner] for i, w in enumerate(self.workers) if i not in self.dead)

    def settled(self) -> bool:
        held = self.held()
        return sum(held) == self.shards and held[-1] - held[0] <= 1

    def run_until_settled(self, most_seconds: float) -> float:
        """Return how long it took until every shard had a living owner, evenly."""
        began = self.now
        while not self.settled() and self.now < began + most_seconds:
            self.run_until(self.now + 1.0)
        return self.now - began

    def _work(self, worker: Coordinator) -> None:
        """Acknowledge something in every shard, every second: the busiest of streams."""
        self.progress += 1
        position = After(SequenceNumber(str(self.progress)))
        for shard_id, lease in worker.held().items():
            if lease.finishing:
                worker.finish(shard_id, lease.epoch)
            else:
                worker.checkpoint(shard_id, lease.epoch, position)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=1.0, help="of virtual time to measure")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    gc.disable()  # memory that nobody gives back is cheaper than 500 workers' worth of collection
    print(
        f"{chosen.shards} shards, {chosen.workers} workers, leases of {TIMES.lease_seconds:.0f} s"
    )
    fleet = Fleet(chosen.shards, chosen.workers)
    settled = fleet.run_until_settled(120)
    held = fleet.held()
    print(f"settled after {settled:.0f} s: between {held[0]} and {held[-1]} each, {sum(held)} held")
    fleet.run_until(fleet.now + 15)
    fleet.table.costs, fleet.tick_seconds = Costs(), []
    fleet.run_until(fleet.now + 60 * chosen.minutes)
    hours = chosen.minutes / 60
    writes = fleet.table.costs.writes
    per_shard = {kind: n / chosen.shards / hours for kind, n in writes.items()}
    total = sum(per_shard.values())
    parts = ", ".join(f"{kind} {n:.0f}" for kind, n in sorted(per_shard.items()))
    print(
        f"writes per shard-hour: {total:.0f} ({parts}); "
        f"the KCL's {KCL_WRITES_PER_SHARD_HOUR} are {KCL_WRITES_PER_SHARD_HOUR / total:.1f} x that"
    )
    costs = fleet.table.costs
    print(
        f"reads per worker-hour: {costs.rows_read / chosen.workers / hours:,.0f} rows "
        f"in {costs.read_calls / chosen.workers / hours:,.0f} calls"
    )
    ticks = sorted(fleet.tick_seconds)
    middle, late, worst = (1000 * ticks[int(p * (len(ticks) - 1))] for p in (0.5, 0.99, 1.0))
    print(f"CPU of a tick: p50 {middle:.1f} ms, p99 {late:.1f} ms, worst {worst:.1f} ms")
    fleet.tick_seconds = []
    fleet.dead.add(chosen.workers // 2)
    missed = fleet.run_until_settled(60)
    print(
        f"one worker dies: its shards had new owners after {missed:.0f} s "
        f"= {missed / TIMES.lease_seconds:.2f} lease times (balanced: {fleet.settled()})"
    )
    good = total <= KCL_WRITES_PER_SHARD_HOUR / 3 and missed <= 1.5 * TIMES.lease_seconds
    return 0 if good and fleet.settled() else 1


if __name__ == "__main__":
    sys.exit(main())
