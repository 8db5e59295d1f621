"""A query as Spark runs it, without Spark: plan, write ahead, read, commit; and crash in between.

Written against the planner and the reader that Spark runs, and a stream in memory whose clock
stands still unless moved. The checker is told of every write, delivery and commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardline.core.fences import Fence
from shardline.core.offsets import Offset
from shardline.core.planning import tasks
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.local.dynamodb_streams.twin import DynamoDBTwin
from shardline.local.kinesis.twin import EPOCH
from shardline.spark.driver.ownership import SoleOwner
from shardline.spark.driver.planner import Planner
from shardline.spark.executor.read_ahead_cache import Leftovers
from shardline.spark.executor.reader import ShardRange, read_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from shardline.core.offsets import Range
    from shardline.core.positions import Position
    from shardline.local.kinesis.twin import KinesisTwin
    from shardline.services.port import StreamService

KEYS = [f"key-{n}" for n in range(10)]


class Crash(Exception):
    """The driver is gone."""


@dataclass
class World:
    """A stream that is written to and resharded, told to a checker."""

    twin: KinesisTwin
    """The stream, as a producer and as the port see it."""
    checker: PromiseChecker = field(default_factory=PromiseChecker)

    def __post_init__(self) -> None:
        self._tell_shards()

    def put(self, key: str) -> None:
        written = self.twin.put(key, key.encode())
        self.checker.wrote(written.shard_id, RecordRef(key, int(written.sequence)))

    def split(self, choice: int) -> None:
        shards = self._open()
        self.twin.split(shards[choice % len(shards)])
        self._tell_shards()

    def merge(self, choice: int) -> None:
        shards = sorted(
            (s for s in self.twin.list_shards() if not s.closed), key=lambda s: s.hash_range or 0
        )
        if len(shards) > 1:
            at = choice % (len(shards) - 1)
            self.twin.merge(shards[at].id, shards[at + 1].id)
            self._tell_shards()

    @property
    def service(self) -> StreamService:
        return self.twin

    @property
    def clock(self) -> Clock:
        return self.twin.clock

    def _open(self) -> list[str]:
        return [shard.id for shard in self.twin.list_shards() if not shard.closed]

    def _tell_shards(self) -> None:
        for shard in self.service.list_shards():
            self.checker.shard(shard.id, shard.parents)


class TableWorld(World):
    """The same for a table's stream, whose shards roll over or split and never merge."""

    def __init__(self, shards: int = 1) -> None:
        self.tables = Tables(Clock(EPOCH))
        self.roots = self.tables.create_table("users", shards=shards).shards
        self.checker = PromiseChecker()
        self._service = DynamoDBTwin(self.tables, "users")
        self._tell_shards()

    def put(self, key: str) -> None:
        keys = {"id": {"S": key}}
        put = self.tables.put_change("users", keys, new=keys)
        self.checker.wrote(put.shard, RecordRef(key, int(put.sequence_number)))

    def split(self, choice: int) -> None:
        shards = [shard.id for shard in self.service.list_shards() if not shard.closed]
        self.tables.split("users", shards[choice % len(shards)])
        self._tell_shards()

    def merge(self, choice: int) -> None:
        shards = [shard.id for shard in self.service.list_shards() if not shard.closed]
        self.tables.roll("users", shards[choice % len(shards)])
        self._tell_shards()

    @property
    def service(self) -> StreamService:
        return self._service

    @property
    def clock(self) -> Clock:
        return self.tables.clock


class Query:
    """One streaming query with its checkpoint directory: two logs of text, as Spark keeps them."""

    def __init__(
        self,
        world: World,
        *,
        start: Position = TRIM_HORIZON,
        max_records: int | None = 1_000_000,
        fail_on_data_loss: bool = True,
    ) -> None:
        self.world = world
        self.max_records = max_records
        self.offsets: list[str] = []
        self.commits = 0
        self.attempt = 0
        self._start = start
        self._fail_on_data_loss = fail_on_data_loss
        self._leftovers = Leftovers()
        self.restart()

    def restart(self) -> None:
        """Begin anew in another process: nothing is left but the checkpoint directory."""
        clock = self.world.clock
        self._leftovers = Leftovers()
        self.planner = Planner(
            self.world.service,
            SoleOwner(),
            start=self._start,
            fail_on_data_loss=self._fail_on_data_loss,
            monotonic=lambda: clock.now_ms() / 1000,
            sleep=clock.advance,
        )
        self.attempt += 1

    def step(self, crash_at: str | None = None) -> int:
        """Run one trigger, and return how many records came; -1 if there was no batch."""
        if len(self.offsets) == self.commits:
            planned = self.planner.plan(self._committed(), self.max_records)
            if planned is None:
                return -1
            self.offsets.append(json.dumps(planned.to_json()))
        if crash_at == "planned":
            raise Crash
        committed, planned = self._committed(), _parsed(self.offsets[-1])
        count = self._read(self.planner.confirm(committed, planned), crash_at)
        if crash_at == "read":
            raise Crash
        self.commits += 1
        for shard_id, item in planned.ranges.items():
            self._tell_commit(shard_id, item)
        return count

    def run_dry(self) -> None:
        """Go on until nothing comes any more."""
        quiet = 0
        while quiet < 5:
            quiet = quiet + 1 if self.step() == -1 else 0
            self.world.clock.advance(6)

    def last(self) -> Offset:
        return _parsed(self.offsets[-1])

    def _committed(self) -> Offset:
        if self.commits == 0:
            return _parsed(json.dumps(self.planner.beginning().to_json()))
        return _parsed(self.offsets[self.commits - 1])

    def _read(self, ranges: Mapping[str, Range], crash_at: str | None) -> int:
        count = 0
        for task in tasks(ranges, 2):
            for shard_id, item in task:
                pages = self._pages(self.planner.to_read(shard_id, item), self._leftovers)
                fence = Fence(item.epoch, self.commits * 100 + self.attempt)
                for page in pages:
                    self.world.checker.delivered(shard_id, fence, _refs(page))
                    count += page.num_rows
                if crash_at == "reading":
                    raise Crash
        return count

    def records(self, shard_id: str, item: Range) -> list[pa.RecordBatch]:
        """Read a range from the stream, whatever was carried."""
        return self._pages(ShardRange(shard_id, item))

    def _pages(self, item: ShardRange, leftovers: Leftovers | None = None) -> list[pa.RecordBatch]:
        return list(read_range(self.world.service, item, leftovers, self.world.clock.advance))

    def _tell_commit(self, shard_id: str, item: Range) -> None:
        if item.upto == SHARD_END:
            self.world.checker.checkpointed(shard_id, item.epoch, None)
        elif isinstance(item.upto, After):
            self.world.checker.checkpointed(shard_id, item.epoch, int(item.upto.sequence))


def _parsed(text: str) -> Offset:
    offset = Offset.from_json(json.loads(text))
    assert json.dumps(offset.to_json()) == text
    return offset


def _refs(page: pa.RecordBatch) -> list[RecordRef]:
    if "partitionKey" in page.schema.names:
        keys = page.column("partitionKey").to_pylist()
    else:
        keys = [json.loads(text)["id"]["S"] for text in page.column("keys").to_pylist()]
    numbers = page.column("sequenceNumber").to_pylist()
    return [RecordRef(key, int(number)) for key, number in zip(keys, numbers, strict=True)]
