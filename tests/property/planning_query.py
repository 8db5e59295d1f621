"""A query as Spark runs it, without Spark: the shipped planner, orders and reader in virtual time.

Calls and pauses are steps, so that one seed decides which of the calls under way is answered next.
The checker is told of every write, delivery and commit.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from shardline.core.fences import Fence
from shardline.core.offsets import Offset
from shardline.core.planning.events import Asked, Event, GapAccepted, TargetSet, Woken
from shardline.core.planning.limits import Settings
from shardline.core.planning.planner import Planner
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.steps import Pause, run
from shardline.spark.driver.inline_records import unpack
from shardline.spark.driver.orders import Orders
from shardline.spark.driver.task_plan import confirm, fresh_ranges, tasks
from shardline.spark.executor.range_reader import RangeReader
from tests.twins.dynamodb_streams import DynamoDBTwin
from tests.twins.kinesis import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from shardline.core.offsets import Range
    from shardline.core.positions import Position
    from shardline.services.port import StreamService
    from shardline.services.steps import Steps
    from shardline.spark.executor.range_reader import ShardRange
    from tests.twins.kinesis import KinesisTwin

KEYS = [f"key-{n}" for n in range(10)]
LONGEST_WAIT_SECONDS = 7200.0
MOST_TURNS = 500_000
"""More steps than a long history takes: something goes on without end."""


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

    def sleep(self, seconds: float) -> None:
        """Let time pass: at least a millisecond, which is what the clock counts."""
        self.clock.advance(max(0.001, seconds))

    def _open(self) -> list[str]:
        return [shard.id for shard in self.twin.list_shards() if not shard.closed]

    def _tell_shards(self) -> None:
        for shard in self.service.list_shards():
            self.checker.shard(shard.id, shard.parents)


class TableWorld(World):
    """The same for a table's stream, whose shards roll over or split and never merge."""

    def __init__(self, shards: int = 1, clock: Clock | None = None) -> None:
        self.tables = Tables(clock or Clock(EPOCH))
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


@dataclass
class _Job:
    due: float
    steps: Steps[Event]
    resume: Callable[[], Any]


class Query:
    """One streaming query with its checkpoint directory: two logs of text, as Spark keeps them."""

    def __init__(
        self,
        world: World,
        *,
        start: Position = TRIM_HORIZON,
        max_records: int | None = 1_000_000,
        fail_on_data_loss: bool = True,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.world = world
        self._clock = world.clock
        self.max_records = max_records
        self.offsets: list[str] = []
        self.commits = 0
        self.attempt = 0
        self.turns = 0
        self.delivered_refs: dict[tuple[int, str], list[RecordRef]] = {}
        """What each batch held in each shard when it was read first."""
        self._start = start
        self._chance = random.Random(seed)
        self._settings = Settings(
            finds_times=world.service.finds_times,
            fail_on_data_loss=fail_on_data_loss,
            **(settings or {}),
        )
        self.restart()

    def restart(self) -> None:
        """Begin anew in another process: nothing is left but the checkpoint directory."""
        self.planner = Planner(self._settings)
        self.orders = Orders(self.world.service, self._now)
        self._jobs: list[_Job] = []
        self._news = True
        """Whether the planner may have another answer for Spark than at the last question."""
        self.attempt += 1

    def set_target(self) -> None:
        self._post(TargetSet())

    # --- the runner ---------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.now_ms() / 1000

    def _post(self, event: Event) -> None:
        self._news = True
        for instruction in self.planner.handle(event, self._now()):
            steps = self.orders.carry_out(instruction)
            self._jobs.append(_Job(self._now(), steps, partial(next, steps)))

    def turn(self) -> bool:
        """Make one step of one job that is due, chosen by the seed; false if none is."""
        self.spend(1)
        now = self._now()
        due = [job for job in self._jobs if job.due <= now]
        if not due:
            wake_at = self.planner.wake_at
            if wake_at is not None and wake_at <= now:
                self._post(Woken())
                return True
            return False
        job = self._chance.choice(due)
        try:
            step = job.resume()
        except StopIteration as stop:
            self._jobs.remove(job)
            self._post(stop.value)
            return True
        if isinstance(step, Pause):
            job.due = now + step.seconds
            job.resume = partial(job.steps.send, None)
            return True
        try:
            job.resume = partial(job.steps.send, step())
        except Crash:
            raise  # at once: no step of a driver that is gone could catch it, or be made later
        except Exception as error:
            job.resume = partial(job.steps.throw, error)
        return True

    def spend(self, turns: int) -> None:
        self.turns += turns
        assert self.turns < MOST_TURNS, "it does not come to rest"

    def advance(self) -> None:
        """Move the clock to the next job that is due."""
        times = [job.due for job in self._jobs]
        if self.planner.wake_at is not None:
            times.append(self.planner.wake_at)
        now = self._now()
        later = [time for time in times if time > now]
        self._clock.advance(max(0.001, min(later, default=now + 0.05) - now))
        self._news = True

    def settle(self, seconds: float = 0.0) -> None:
        """Let the planner work for a while, as it does while a batch runs."""
        end = self._now() + seconds
        while True:
            while self.turn():
                pass
            if self._now() >= end:
                return
            self.advance()

    # --- Spark --------------------------------------------------------------------------------

    def ask(self) -> Offset | None:
        """Ask for the next batch, as Spark does; wait as long as the planner says."""
        committed, given_up_at = self.committed(), self._now() + LONGEST_WAIT_SECONDS
        event = Asked(committed, self.max_records, self.max_records is None)
        self._post(event)
        while True:
            offset = self.planner.offer(self._now()) if self._news else None
            if offset is not None:
                return offset
            self._news = False
            if self.turn():
                continue
            if not self.planner.waits(self._now()):
                return None
            assert self._now() < given_up_at, "the planner waits without end"
            self.advance()

    def step(self, crash_at: str | None = None) -> int:
        """Run one trigger, and return how many records came; -1 if there was no batch."""
        self.spend(20)
        if len(self.offsets) == self.commits:
            planned = self.ask()
            if planned is None:
                return -1
            self.offsets.append(json.dumps(planned.to_json()))
        if crash_at == "planned":
            raise Crash
        committed, planned = self.committed(), parsed(self.offsets[-1])
        count = self._read(self.ranges(committed, planned), crash_at)
        if crash_at == "read":
            raise Crash
        for shard_id, item in planned.ranges.items():
            self._tell_commit(shard_id, item)
        self.commits += 1
        return count

    def step_soon(self, crash_at: str | None = None, seconds: float = 6.0) -> int:
        """Run the next trigger that has a batch; -1 if none comes for a while."""
        end = self._now() + seconds
        while self._now() < end:
            count = self.step(crash_at)
            if count != -1:
                return count
            self.settle(0.25)
        return -1

    def run_dry(self, seconds: float = 12.0) -> None:
        """Go on until nothing comes for a while."""
        quiet_since = self._now()
        while self._now() - quiet_since < seconds:
            if self.step() != -1:
                quiet_since = self._now()
            else:
                self.settle(0.5)

    def last(self) -> Offset:
        return parsed(self.offsets[-1])

    def ranges(self, committed: Offset, planned: Offset) -> tuple[ShardRange, ...]:
        planner = self.planner
        if planned == planner.offered:
            return fresh_ranges(committed, planned, planner.retention, planner.taken)
        confirmed = confirm(
            self.world.service,
            self.orders,
            committed,
            planned,
            fail_on_data_loss=self._settings.fail_on_data_loss,
            run_all=lambda steps: [run(one, sleep=self.world.sleep) for one in steps],
        )
        for gap in confirmed.gaps:
            self._post(GapAccepted(gap))
        return confirmed.ranges

    def committed(self) -> Offset:
        if self.commits == 0:
            return parsed(json.dumps(Offset(self._start).to_json()))
        return parsed(self.offsets[self.commits - 1])

    def _read(self, ranges: tuple[ShardRange, ...], crash_at: str | None) -> int:
        count = 0
        for task in tasks(ranges, 2):
            for item in task:
                fence = Fence(self.commits, self.attempt)
                refs: list[RecordRef] = []
                for page in self.pages(item):
                    refs += refs_of(page)
                    self.world.checker.delivered(item.shard_id, fence, refs_of(page))
                    count += page.num_rows
                before = self.delivered_refs.setdefault((self.commits, item.shard_id), refs)
                assert before == refs or item.has_gap, "a batch that was run again differs"
                if crash_at == "reading":
                    raise Crash
        return count

    def pages(self, item: ShardRange) -> list[pa.RecordBatch]:
        """Read a range as a task does: from what travels with it, or as a retry from the stream."""
        if item.inline is not None and self._chance.random() < 0.5:
            return list(unpack(item.inline))
        return self.read_again(item)

    def read_again(self, item: ShardRange) -> list[pa.RecordBatch]:
        """Read a range from the stream, whatever travels with it."""
        found: list[pa.RecordBatch] = []
        reader = RangeReader(
            self.world.service, item, lambda _, page: found.append(page), clock=self._now
        )

        def sleep(seconds: float) -> None:
            self.spend(1)
            self.world.sleep(seconds)

        run(reader.read_steps(), sleep=sleep)
        return found

    def _tell_commit(self, shard_id: str, item: Range) -> None:
        if item.upto == SHARD_END:
            self.world.checker.checkpointed(shard_id, self.commits, None)
        elif isinstance(item.upto, After):
            self.world.checker.checkpointed(shard_id, self.commits, int(item.upto.sequence))


@lru_cache(8)
def parsed(text: str) -> Offset:
    offset = Offset.from_json(json.loads(text))
    assert json.dumps(offset.to_json()) == text
    return offset


def refs_of(page: pa.RecordBatch) -> list[RecordRef]:
    if "partitionKey" in page.schema.names:
        keys = page.column("partitionKey").to_pylist()
    else:
        keys = [json.loads(text)["id"]["S"] for text in page.column("keys").to_pylist()]
    numbers = page.column("sequenceNumber").to_pylist()
    return [RecordRef(key, int(number)) for key, number in zip(keys, numbers, strict=True)]
