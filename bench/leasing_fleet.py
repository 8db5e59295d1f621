"""A fleet of shipped coordinators on one lease table in memory that counts, in virtual time.

Every call of a worker takes a few milliseconds of that time, so workers overtake each other as
they do in a data centre. The CPU time that is measured is real: all that a worker computes in one
tick, without the table.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import After
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard
from shardline.leases.coordinator import Coordinator
from shardline.leases.port import Conflict
from shardline.services.port import StreamDescription
from shardline.services.steps import Pause
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator

    from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
    from shardline.leases.port import RowPage
    from shardline.services.steps import Steps

BIRTH: Final = datetime(2026, 1, 1, tzinfo=UTC)
TIMES: Final = LeaseTimes(lease_seconds=10.0)
CALL_SECONDS: Final = (0.003, 0.012)
"""The shortest and the longest time that a call to the table takes."""
ROW_BYTES: Final = 512
HEARTBEAT_BYTES: Final = 256
_UNIT_BYTES: Final = 4096
_LISTED_SHARDS: Final = 10_000
"""In one page of ListShards, at most."""


@dataclass
class Costs:
    """The calls of a lease table."""

    writes: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    read_calls: int = 0
    rows_read: int = 0
    read_units: float = 0.0
    """As DynamoDB counts them: half of one for each 4 KB that may lag."""


class CountingTable(MemoryLeaseTable):
    """A lease table that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.costs = Costs()

    def _read(self, rows: int, read_units: float) -> None:
        self.costs.read_calls += 1
        self.costs.rows_read += rows
        self.costs.read_units += read_units

    def read_header(self, app_name: str, stream_name: str) -> Header | None:
        self._read(1, 1)
        return super().read_header(app_name, stream_name)

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        page = super().scan_rows(app_name, stream_name, after, limit)
        self._read(len(page.rows), _lagging_units(len(page.rows) * ROW_BYTES))
        return page

    def read_rows(self, app_name: str, stream_name: str, shard_ids: Collection[str]) -> Any:
        self._read(len(shard_ids), len(shard_ids))
        return super().read_rows(app_name, stream_name, shard_ids)

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        beats = super().read_heartbeats(app_name, stream_name)
        self._read(len(beats), _lagging_units(len(beats) * HEARTBEAT_BYTES))
        return beats

    def read_heartbeat(self, app_name: str, stream_name: str, worker: str) -> Heartbeat | None:
        self._read(1, 1)
        return super().read_heartbeat(app_name, stream_name, worker)

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        self.costs.writes["rows"] += 1  # a refused one is paid for as well
        try:
            super().swap_row(new, expected)
        except Conflict:
            self.costs.refused += 1
            raise

    def swap_heartbeat(self, new: Heartbeat, expected: Heartbeat | None) -> None:
        self.costs.writes["heartbeats"] += 1
        super().swap_heartbeat(new, expected)

    def bump(self, header: Header, *, settled: bool = False) -> Header:
        self.costs.writes["headers"] += 1
        return super().bump(header, settled=settled)


class Listing:
    """A stream service that only lists, and counts its calls."""

    finds_times = True

    def __init__(self, shards: int) -> None:
        self.calls: Counter[str] = Counter()
        step = (HASH_SPACE_END + 1) // shards
        ends = [(i + 1) * step - 1 for i in range(shards - 1)] + [HASH_SPACE_END]
        self._shards = tuple(
            Shard(f"shardId-{i:012d}", hash_range=HashRange(i * step, end))
            for i, end in enumerate(ends)
        )

    def describe(self) -> StreamDescription:
        self.calls["describe"] += 1
        return StreamDescription("orders", "arn", BIRTH, True, 86_400)

    def list_shards(self) -> tuple[Shard, ...]:
        self.calls["list"] += -(-len(self._shards) // _LISTED_SHARDS)
        return self._shards

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        return tuple(shard for shard in self._shards if shard_id in shard.parents)

    def has_shard(self, shard_id: str) -> bool:
        return any(shard.id == shard_id for shard in self._shards)


class Fleet:
    """Workers that all start within one second, and then work without end."""

    def __init__(
        self,
        shards: int,
        workers: int,
        seed: int = 1,
        *,
        busy: bool = True,
        times: LeaseTimes = TIMES,
    ) -> None:
        self.now = 0.0
        self.table = CountingTable()
        self.shards = shards
        self._busy = busy
        self._times = times
        self.dead: set[int] = set()
        self.tick_seconds: list[float] = []
        """The CPU time of every tick that ended."""
        self._random = Random(seed)
        self._progress = 0
        self.listing = Listing(shards)
        self.workers = [self._worker(i) for i in range(workers)]
        self._due: list[tuple[float, int, int, Generator[float, None, None]]] = []
        self._started = 0
        for i in range(workers):
            self._begin(i, self._random.random())

    def run_until(self, end: float) -> None:
        """Run all that is due before a time."""
        due = self._due
        while due and due[0][0] <= end:
            self.now, number, i, life = heapq.heappop(due)
            if i not in self.dead:
                seconds = next(life, None)
                if seconds is not None:
                    heapq.heappush(due, (self.now + seconds, number, i, life))
        self.now = end

    def join(self) -> int:
        """Start one more worker now; return its number."""
        self.workers.append(self._worker(len(self.workers)))
        self._begin(len(self.workers) - 1, self.now)
        return len(self.workers) - 1

    def leave(self, i: int) -> None:
        """Stop a worker in order: it releases its leases, one call after the other."""
        self.dead.add(i)
        self.leaving = self._actor(self.workers[i], self.workers[i].leave_steps())
        self._push(self.now, -1, self.leaving)

    def held(self) -> list[int]:
        """Return how many leases each living worker has by the table, the fewest first."""
        rows = MemoryLeaseTable.scan_rows(self.table, "app", "orders", None, self.shards).rows
        counts = Counter(row.lease_owner for row in rows)
        return sorted(counts[w.owner] for i, w in enumerate(self.workers) if i not in self.dead)

    def owned(self) -> bool:
        """Return true if every shard has an owner that lives."""
        return sum(self.held()) == self.shards

    def settled(self) -> bool:
        """Return true if every shard has an owner that lives, and all have the same or one more."""
        held = self.held()
        return sum(held) == self.shards and held[-1] - held[0] <= 1

    def longest_unowned(self, seconds: float) -> float:
        """Run for a while; return the longest time that a shard was without an owner that lives."""
        since: dict[str, float] = {}
        longest, end = 0.0, self.now + seconds
        while self.now < end:
            live = {w.owner for i, w in enumerate(self.workers) if i not in self.dead}
            rows = MemoryLeaseTable.scan_rows(self.table, "app", "orders", None, self.shards).rows
            unowned = [row.shard_id for row in rows if row.lease_owner not in live]
            since = {i: since.get(i, self.now) for i in unowned}
            longest = max(longest, *(self.now - at for at in since.values()), 0.0)
            self.run_until(self.now + 0.5)
        return longest

    def run_until_owned(self, most_seconds: float) -> float:
        """Return how long it took until every shard had an owner that lives."""
        return self._run_until(self.owned, most_seconds)

    def run_until_settled(self, most_seconds: float) -> float:
        """Return how long it took until the shards were shared evenly."""
        return self._run_until(self.settled, most_seconds)

    def _run_until(self, reached: Callable[[], bool], most_seconds: float) -> float:
        began = self.now
        while not reached() and self.now < began + most_seconds:
            self.run_until(self.now + 0.25)
        return self.now - began

    def _worker(self, i: int) -> Coordinator:
        return Coordinator(
            self.table,
            self.listing,  # type: ignore[arg-type] # it need not read
            "app",
            "orders",
            f"worker-{i:03d}",
            times=self._times,
            clock=lambda: self.now,
            today=lambda: BIRTH + timedelta(seconds=self.now),
        )

    def _begin(self, i: int, at: float) -> None:
        worker = self.workers[i]
        for steps in (worker.renew_steps(), worker.table_steps(), worker.listing_steps()):
            self._push(at, i, self._actor(worker, steps))
        self._push(at, i, self._consumer(worker))

    def _push(self, at: float, i: int, life: Generator[float, None, None]) -> None:
        self._started += 1
        heapq.heappush(self._due, (at, self._started, i, life))

    def _actor(self, worker: Coordinator, steps: Steps[None]) -> Generator[float, None, None]:
        """Run steps; yield how long each call and each pause takes."""
        del worker
        spent = 0.0
        answer: Any = None
        error: Exception | None = None
        while True:
            began = time.process_time()
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                self.tick_seconds.append(spent + time.process_time() - began)
                return
            spent += time.process_time() - began
            answer, error = None, None
            if isinstance(step, Pause):
                self.tick_seconds.append(spent)
                spent = 0.0
                yield max(0.0, step.seconds)
                continue
            yield self._random.uniform(*CALL_SECONDS)
            try:
                answer = step()
            except Conflict as conflict:
                error = conflict

    def _consumer(self, worker: Coordinator) -> Generator[float, None, None]:
        while True:
            self._work(worker)
            yield self._times.tick_seconds

    def _work(self, worker: Coordinator) -> None:
        """Acknowledge something in every shard, at every tick: the busiest of streams."""
        self._progress += 1
        position = After(SequenceNumber(str(self._progress)))
        for shard_id, lease in worker.held().items():
            if lease.finishing:
                worker.finish(shard_id, lease.epoch)
            elif self._busy:
                worker.checkpoint(shard_id, lease.epoch, position)


def _lagging_units(size_bytes: int) -> float:
    return 0.5 * max(1, math.ceil(size_bytes / _UNIT_BYTES))
