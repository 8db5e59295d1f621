"""Spark applications that share a stream, driven by hand: real planners, leases and deliveries.

The protocol is Spark's: the plan is written to the offset log, then partitions are asked for,
then they are read and delivered, then the commit log is written; the next plan begins with that.
Nothing runs by itself and no real time passes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.core.leasing.times import LeaseTimes
from shardline.core.offsets import Offset
from shardline.core.positions import TRIM_HORIZON, After
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.leases.coordinator import Coordinator
from shardline.leases.memory import MemoryLeaseTable
from shardline.local.kinesis.twin import KinesisTwin
from shardline.spark.driver.leased import LeasedOwner
from shardline.spark.driver.planner import Planner
from shardline.spark.executor.columns import arrow_schema, with_origin
from shardline.spark.executor.delivery import Delivering
from shardline.spark.executor.fencing import fenced
from shardline.spark.executor.reader import ShardRange, read_range
from shardline.spark.executor.sink import is_held
from shardline.spark.options import KINESIS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import pyarrow as pa

    from shardline.core.fences import Fence
    from shardline.core.leasing.rows import LeaseRow
    from shardline.services.port import Page

APP, STREAM = "billing", "orders"
LEASE_SECONDS = 10.0
FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
SCHEMA = arrow_schema(KINESIS)
Event = tuple[str, str]
"""What happened, and in which shard."""


class ByHand(Coordinator):
    """A coordinator that ticks when it is told to."""

    def start(self) -> None:
        pass


class TracedTable(MemoryLeaseTable):
    """A lease table that tells of every write that succeeded."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.writes = 0

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        super().swap_row(new, expected)
        self.writes += 1
        self._world.row_written(new, expected)

    def row(self, shard_id: str) -> LeaseRow:
        return self.read_rows(APP, STREAM, [shard_id])[shard_id]

    def owners(self) -> dict[str, str]:
        """Return the worker's name for each shard that is held."""
        rows = self.scan_rows(APP, STREAM, None, 1000).rows
        return {r.shard_id: r.lease_owner.partition("/")[0] for r in rows if r.lease_owner}


class TracedTwin(KinesisTwin):
    """A stream that tells of reads which found something."""

    world: World

    def read(self, iterator: str, max_records: int) -> Page:
        page = super().read(iterator, max_records)
        self.world.reads += 1
        return page


@dataclass
class Recorder(ShardConsumer):
    """Tells the checker and the trace of what it is given."""

    world: World
    owner: str
    fails: Callable[[ShardBatch], None] = lambda _: None

    def process(self, batch: ShardBatch) -> None:
        self.fails(batch)
        records = [RecordRef(r.partition_key, int(r.sequence_number)) for r in batch.records]
        self.world.checker.delivered(batch.shard_id, batch.fence, records, self.owner)
        self.world.events.append(("delivered", batch.shard_id))

    def shard_started(self, shard_id: str, fence: Fence) -> None:  # noqa: ARG002
        self.world.events.append(("started", shard_id))

    def shard_ended(self, shard_id: str) -> None:
        self.world.events.append(("ended", shard_id))

    def lease_lost(self, shard_id: str) -> None:
        self.world.events.append(("lost", shard_id))


class World:
    """A stream, a lease table, a checker, and a clock that moves when told."""

    def __init__(self, shards: int = 2) -> None:
        self.twin = TracedTwin(shards, name=STREAM)
        self.twin.world = self
        self.table = TracedTable(self)
        self.checker = PromiseChecker()
        self.events: list[Event] = []
        self.reads = 0
        self.apps: list[App] = []
        self._numbers = itertools.count()
        self._shards: set[str] = set()
        self._learn_shards()

    def monotonic(self) -> float:
        return self.twin.clock.now_ms() / 1000

    def put(self, count: int = 10, keys: int = 8) -> None:
        for number in itertools.islice(self._numbers, count):
            key = f"key-{number % keys}"
            written = self.twin.put(key, b"%d" % number)
            self.checker.wrote(written.shard_id, RecordRef(key, int(written.sequence)))
            self.twin.clock.advance(0.01)

    def put_into(self, shard_id: str) -> None:
        """Write one record into a shard of choice, under a key of its own."""
        (shard,) = (s for s in self.twin.list_shards() if s.id == shard_id)
        key = f"only-{shard_id}"
        assert shard.hash_range is not None
        written = self.twin.put(key, b"", hash_key=shard.hash_range.start)
        self.checker.wrote(written.shard_id, RecordRef(key, int(written.sequence)))

    def split(self, shard_id: str) -> tuple[str, ...]:
        children = self.twin.split(shard_id)
        self._learn_shards()
        return children

    def app(self, name: str, **more: Any) -> App:
        app = App(self, name, **more)
        self.apps.append(app)
        return app

    def pass_seconds(self, seconds: float = 1.0) -> None:
        self.twin.clock.advance(seconds)

    def run(self, *apps: App, steps: int = 60, until: Callable[[], bool] | None = None) -> None:
        """Let applications tick and run batches in turns until something is so."""
        for _ in range(steps):
            for app in apps:
                app.step()
            self.pass_seconds()
            if until is not None and until():
                return
        assert until is None, f"in vain, after {steps} steps: {self.events[-20:]}"

    def all_delivered(self) -> bool:
        return self.checker.verdict().lost == 0

    def row_written(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        shard_id = new.shard_id
        if expected is None:
            self.events.append(("row", shard_id))
            return
        if new.epoch > expected.epoch:
            self.events.append(("taken", shard_id))
        if new.checkpoint != expected.checkpoint:
            self.events.append(("completed" if new.completed else "checkpoint", shard_id))
            owner = expected.lease_owner or ""
            if new.completed:
                self.checker.checkpointed(shard_id, new.epoch, None, owner)
            elif isinstance(new.checkpoint, After):
                upto = int(new.checkpoint.sequence)
                self.checker.checkpointed(shard_id, new.epoch, upto, owner)
        if expected.lease_owner and not new.lease_owner and not new.completed:
            self.events.append(("released", shard_id))

    def _learn_shards(self) -> None:
        for shard in self.twin.list_shards():
            if shard.id not in self._shards:
                self._shards.add(shard.id)
                self.checker.shard(shard.id, shard.parents)


@dataclass
class Disk:
    """What survives a driver: Spark's offset log and commit log."""

    offsets: list[Offset] = field(default_factory=lambda: [Offset(TRIM_HORIZON)])
    committed: int = 0
    """How many batches are in the commit log. The offset before the first is at index 0."""


class App:
    """One Spark application. `start` begins a new driver on the same disk."""

    def __init__(
        self, world: World, name: str, *, disk: Disk | None = None, goes_on: bool = False
    ) -> None:
        self.world, self.name, self.goes_on = world, name, goes_on
        self.disk = disk or Disk()
        self.max_records = 1000
        self.fails: Callable[[ShardBatch], None] = lambda _: None
        self._attempts = itertools.count()
        self.start()

    def start(self) -> None:
        world = self.world
        self.coordinator = ByHand(
            world.table,
            world.twin,
            APP,
            STREAM,
            self.name,
            times=LeaseTimes(lease_seconds=LEASE_SECONDS),
            goes_on_after_gaps=self.goes_on,
            clock=world.monotonic,
            today=world.twin.clock.now,
        )
        self.owner = LeasedOwner(self.coordinator, monotonic=world.monotonic)
        self.planner = Planner(
            world.twin,
            self.owner,
            start=TRIM_HORIZON,
            fail_on_data_loss=not self.goes_on,
            monotonic=world.monotonic,
        )
        self._first = True

    @property
    def held(self) -> set[str]:
        return set(self.coordinator.held())

    def step(self) -> bool:
        """Tick once, and run one batch if there is one."""
        if not self._first:
            self.coordinator.tick()
        if len(self.disk.offsets) - 1 == self.disk.committed and not self.plan():
            return False
        self.run_batch()
        self.commit()
        return True

    def plan(self) -> bool:
        """Ask for the next batch, and write it to the offset log."""
        self._first = False
        planned = self.planner.plan(self.disk.offsets[-1], self.max_records)
        if planned is None:
            return False
        self.disk.offsets.append(Offset.from_json(planned.to_json()))
        return True

    def partitions(self) -> list[ShardRange]:
        self._first = False
        start, end = self.disk.offsets[-2:]
        ranges = self.planner.confirm(start, end)
        return [self.planner.to_read(k, v) for k, v in sorted(ranges.items())]

    def run_batch(self, between: Callable[[], None] = lambda: None) -> list[ShardRange]:
        """Read and deliver the newest batch of the offset log, a task for each range."""
        ranges = self.partitions()
        for item in ranges:
            self.run_task(item, between)
        return ranges

    def run_task(self, item: ShardRange, between: Callable[[], None] = lambda: None) -> None:
        consumer = Recorder(self.world, self.coordinator.owner, self.fails)
        Delivering(
            consumer,
            batch=len(self.disk.offsets) - 1,
            attempt=next(self._attempts),
            still_held=partial(is_held, self.world.table, APP, STREAM),
            sleep=lambda _: None,
        ).run(fenced(self._rows(item, between), [item], SCHEMA))

    def commit(self) -> None:
        self.disk.committed = len(self.disk.offsets) - 1

    def leave(self) -> None:
        """End as a deployment does: what was committed is acknowledged, and all is given back."""
        if len(self.disk.offsets) - 1 == self.disk.committed:
            self.owner.acknowledge(self.disk.offsets[-1])
        self.planner.stop()

    def _rows(
        self, item: ShardRange, between: Callable[[], None]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        for page in read_range(self.world.twin, item, sleep=lambda _: None):
            self.world.events.append(("read", item.shard_id))
            rows = with_origin(page, SCHEMA, stream=STREAM, shard_id=item.shard_id)
            half = rows.num_rows // 2
            for part in (rows.slice(0, half), rows.slice(half)):
                if part.num_rows:
                    yield item.shard_id, part
                    between()


def finish(world: World, *apps: App) -> None:
    """Run until all is delivered and acknowledged in the table, and judge."""
    world.run(*apps, until=world.all_delivered)
    for app in apps:
        app.leave()
    verdict = world.checker.verdict().require()
    assert verdict.stale == 0


def planned_then_killed(world: World, name: str = "ada") -> App:
    """Return an application whose driver died between planning a batch and running it."""
    world.put(20)
    app = world.app(name)
    world.run(app, until=world.all_delivered)
    app.owner.acknowledge(app.disk.offsets[-1])
    world.pass_seconds(20)
    app.step()  # checkpoints are on the table now
    world.put(20)
    world.run(app, steps=1)
    while len(app.disk.offsets) - 1 == app.disk.committed:
        world.pass_seconds(0.5)
        app.coordinator.tick()
        app.plan()
    app.start()
    return app
