"""A runner on a twin of Kinesis, under a virtual clock, with a consumer that keeps what it got."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, ClassVar

from shardline.consumer.consumer import ShardConsumer
from shardline.consumer.job import Job, LeasePlace, StreamSource
from shardline.consumer.messages import (
    Acknowledged,
    FinishPipeline,
    LeasesValid,
    PipelineKey,
    Pulse,
    StartPipeline,
    StopPipeline,
)
from shardline.consumer.runner import Runner
from shardline.core.positions import TRIM_HORIZON, Position
from tests.twins.kinesis import KinesisTwin
from tests.unit.consumer.pushing_twin import PushingTwin
from tests.unit.consumer.virtual_loops import VirtualLoops

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.consumer.consumer import ShardBatch
    from shardline.consumer.messages import FromRunner
    from shardline.core.fences import Fence

STREAM = "orders"


class Keeping(ShardConsumer):
    """Writes down every call; `fails` says which calls of `process` raise."""

    calls: ClassVar[list[tuple[Any, ...]]] = []
    fails: ClassVar[Callable[[ShardBatch], bool]] = lambda batch: False

    def process(self, batch: ShardBatch) -> None:
        data = [bytes(record.data) for record in batch.records]
        self.calls.append(("process", batch.shard_id, batch.fence, data))
        if type(self).fails(batch):
            raise ValueError("no")

    def shard_started(self, shard_id: str, fence: Fence) -> None:
        self.calls.append(("started", shard_id, fence))

    def shard_ended(self, shard_id: str) -> None:
        self.calls.append(("ended", shard_id))

    def shard_released(self, shard_id: str) -> None:
        self.calls.append(("released", shard_id))

    def lease_lost(self, shard_id: str) -> None:
        self.calls.append(("lost", shard_id))


class Stage:
    def __init__(
        self,
        consumer: type[ShardConsumer] = Keeping,
        *,
        shards: int = 1,
        pushed: bool = False,
        **settings: Any,
    ) -> None:
        Keeping.calls.clear()
        Keeping.fails = lambda batch: False
        self.twin = (PushingTwin if pushed else KinesisTwin)(shards, name=STREAM)
        self.loops = VirtualLoops(self.twin.clock)
        if isinstance(self.twin, PushingTwin):
            self.twin.wait = self._wait
        self.sent: list[FromRunner] = []
        job = Job(
            (StreamSource(f"kinesis://{STREAM}"),), "app", LeasePlace("memory://"),
            pickle.dumps(consumer()), **settings,
        )  # fmt: skip
        self.runner = Runner(
            job,
            self.sent.append,
            connect_to=lambda *_: self.twin,
            make_loop=self.loops.make,
            clock=lambda: self.loops.now,
        )
        self.valid(10**9)

    def _wait(self, seconds: float) -> None:
        self.loops.now += seconds

    @property
    def shard_ids(self) -> list[str]:
        return [shard.id for shard in self.twin.list_shards()]

    @property
    def reads(self) -> int:
        return self.runner.counts[STREAM].reads

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        return Keeping.calls

    def valid(self, seconds: float) -> None:
        self.runner.handle(LeasesValid(self.loops.now + seconds))

    def start(
        self, shard_id: str, epoch: int = 1, checkpoint: Position = TRIM_HORIZON, **more: Any
    ) -> PipelineKey:
        key = PipelineKey(STREAM, shard_id, epoch)
        self.runner.handle(StartPipeline(key, checkpoint, **more))
        return key

    def finish(self, key: PipelineKey) -> None:
        self.runner.handle(FinishPipeline(key))

    def stop(self, key: PipelineKey) -> None:
        self.runner.handle(StopPipeline(key))

    def run(self, seconds: float = 5.0) -> None:
        """Let time pass, with the runner's own watch every second."""
        for _ in range(int(seconds)):
            self.loops.run(1.0)
            self.runner.watch()

    def processed(self, shard_id: str | None = None) -> list[bytes]:
        return [
            data
            for call in self.calls
            if call[0] == "process" and (shard_id is None or call[1] == shard_id)
            for data in call[3]
        ]

    def reports(self, *kinds: type) -> list[Any]:
        return [m for m in self.sent if isinstance(m, kinds) and not isinstance(m, Pulse)]

    def pulse(self) -> Pulse:
        """Return the last sign of life."""
        return [message for message in self.sent if isinstance(message, Pulse)][-1]

    def acknowledged(self) -> Position | None:
        found = self.reports(Acknowledged)
        return found[-1].position if found else None
