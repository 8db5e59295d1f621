"""A simulated Spark application: its logs on disk, its query, and tasks that may outlive it.

The protocol is Spark's: the offset log is written before partitions are asked for, these before
anything is read, and the commit log after all of it. The next latestOffset is the
acknowledgement. A batch that an earlier process left unfinished is dropped: the lease table says
where each shard goes on.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardline.core.fences import Fence
from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import After, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import LeaseLost
from shardline.leases.coordinator import Coordinator
from tests.simulation.clockwork import Activity, Process, Sleep

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from random import Random

    from tests.simulation.clockwork import Clockwork, Network
    from tests.simulation.stream import SimStream
    from tests.simulation.table import SimTable

APP = "app"
LEASE_SECONDS = 6.0
TIMES = LeaseTimes(
    lease_seconds=LEASE_SECONDS,
    checkpoint_seconds=4.0,
    retention_seconds=30.0,
    most_starts=1_000,  # crashes here are no fault of a shard
)
STALL_SECONDS = 4 * LEASE_SECONDS


class WorkedWithoutLease(Exception):
    """A worker planned a shard that somebody else had had for a whole lease time."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a batch reads of one shard: behind `after`, up to `upto`, perhaps to the end."""

    shard_id: str
    incarnation: int
    epoch: int
    after: int
    upto: int
    end: bool


@dataclass(slots=True)
class Disk:
    """What survives a crash: the offset log and the commit log."""

    offsets: list[tuple[Range, ...]] = field(default_factory=list)
    committed: int = 0


class Worker:
    """One application by name; crashes and deploys replace the process, not the disk."""

    def __init__(
        self,
        number: int,
        name: str,
        stream: SimStream,
        table: SimTable,
        clockwork: Clockwork,
        network: Network,
        random: Random,
        today: Callable[[], datetime],
        capacity: int | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.stream = stream
        self._table = table
        self._clockwork = clockwork
        self._network = network
        self._random = random
        self._today = today
        self._capacity = capacity
        self.disk = Disk()
        self.rate = 1.0
        self.max_records = 5
        self._incarnations = 0
        self.overlap = 0.0
        self.hung = False
        self.started_at = 0.0
        self.on_left: Callable[[Worker, list[str]], None] = lambda *_: None
        self._executors = Process(clockwork, network)  # other machines: they outlive the driver
        self.process: Process | None = None
        self.coordinator: Coordinator | None = None

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def well(self) -> bool:
        """Say whether it works: up, and its query alive."""
        return self.up and not self.hung

    def start(self) -> None:
        if self.up:
            return
        self._incarnations += 1
        self.hung = False
        self.started_at = self._clockwork.now
        process = Process(self._clockwork, self._network, self.rate)
        coordinator = Coordinator(
            self._table,
            self.stream,
            APP,
            self.stream.name,
            self.name,
            times=TIMES,
            capacity=self._capacity,
            goes_on_after_gaps=True,
            clock=process.clock,
            today=self._today,
            attempt=f"{self.number}.{self._incarnations}",
        )
        self._served: dict[str, Range] = {}
        self.process, self.coordinator = process, coordinator
        process.spawn(self._query(coordinator))

    def crash(self) -> None:
        if self.process is not None:
            self.process.kill()

    def deploy(self) -> None:
        """SIGTERM: acknowledge what is in the commit log, leave, and come back as a new one."""
        process, coordinator = self.process, self.coordinator
        if process is None or coordinator is None or not process.alive:
            return
        process.kill()
        last = Process(self._clockwork, self._network, process._rate)
        last._offset = process._offset
        last.paused_until, last.cut_off_until = process.paused_until, process.cut_off_until
        self.process = last
        if len(self.disk.offsets) == self.disk.committed:
            self._acknowledge(coordinator)
        last.spawn(self._shut_down(coordinator, last))

    def hang(self) -> None:
        """The query dies and its process stays, until its keeper notices that and ends it."""
        self.hung = True
        self._clockwork.at(self._clockwork.now + STALL_SECONDS, self._end_if_hung)

    def _end_if_hung(self) -> None:
        if self.hung:
            self.crash()

    def _shut_down(self, coordinator: Coordinator, process: Process) -> Activity:
        owned = [
            i
            for i, row in self._table.rows_of((APP, self.stream.name)).items()
            if row.lease_owner == coordinator.owner
        ]
        yield from coordinator.leave_steps()
        process.alive = False
        self.on_left(self, owned)
        yield Sleep(0.0)

    # --- the driver -------------------------------------------------------------------------

    def _rounds(self, coordinator: Coordinator) -> Activity:
        """Read and write rows; what the worker knows never contradicts itself."""
        while True:
            yield from coordinator._rows.round()
            coordinator.state.validate()
            yield Sleep(LEASE_SECONDS / 6)

    def _query(self, coordinator: Coordinator) -> Activity:
        assert self.process is not None
        disk = self.disk
        self.process.spawn(coordinator.listing_steps())
        self.process.spawn(coordinator.renew_steps())
        self.process.spawn(self._rounds(coordinator))
        while True:
            yield Sleep(0.3 + self._random.random())
            while self.hung:
                yield Sleep(5.0)
            self._acknowledge(coordinator)
            ranges = self._plan(coordinator)
            if ranges:
                disk.offsets.append(ranges)
                yield Sleep(0.02)
                held = coordinator.held()
                kept = [
                    r for r in ranges if r.shard_id in held and held[r.shard_id].epoch == r.epoch
                ]
                yield from self._run_batch(coordinator, kept)

    def _plan(self, coordinator: Coordinator) -> tuple[Range, ...]:
        stream, ranges = self.stream, []
        for shard_id, lease in coordinator.held().items():
            if lease.finishing:
                _ignoring_loss(coordinator.finish, shard_id, lease.epoch)
                continue
            if shard_id not in stream.shards or _created_at(coordinator) != stream.created_at:
                continue
            epoch, since = self._table.taken_at.get((stream.name, shard_id), (0, 0.0))
            calm = self._clockwork.now > self._network.troubled_until + 2 * LEASE_SECONDS
            late = self._clockwork.now > since + LEASE_SECONDS / (2 if calm else 1)
            if epoch > lease.epoch and late:
                raise WorkedWithoutLease(f"{coordinator.owner} on {shard_id} under {lease.epoch}")
            after = _number(lease.checkpoint)
            limit = 1 + self._random.randrange(self.max_records)
            records = stream.after(shard_id, after, limit)
            upto = records[-1].sequence if records else after
            end = stream.ends_at(shard_id, upto)
            if records or end:
                ranges.append(Range(shard_id, stream.incarnation, lease.epoch, after, upto, end))
        return tuple(ranges)

    def _acknowledge(self, coordinator: Coordinator) -> None:
        """The next latestOffset: what was served in this process, and is in the commit log."""
        for r in self._served.values():
            if r.end:
                _ignoring_loss(coordinator.complete, r.shard_id, r.epoch)
            else:
                position = After(SequenceNumber(str(r.upto)))
                _ignoring_loss(coordinator.checkpoint, r.shard_id, r.epoch, position)
        self._served = {}

    def _run_batch(self, coordinator: Coordinator, ranges: list[Range]) -> Activity:
        batch = len(self.disk.offsets)
        for r in ranges:
            attempt = 0
            if self._random.random() < self.overlap:  # an executor that is thought lost goes on
                self._executors.spawn(
                    self._task(coordinator.owner, r, Fence(r.epoch, batch * 100), 2.0)
                )
                attempt = 1
            yield from self._task(coordinator.owner, r, Fence(r.epoch, batch * 100 + attempt), 0.2)
        self._served = {r.shard_id: r for r in ranges}
        self.disk.committed = batch
        yield Sleep(0.02)

    def _task(self, owner: str, r: Range, fence: Fence, seconds: float) -> Activity:
        stream = self.stream
        name = f"{stream.name}.{r.incarnation}.{r.shard_id}"
        at = r.after
        while at < r.upto:
            yield Sleep(seconds * self._random.random())
            if stream.incarnation != r.incarnation:
                return
            records = [x for x in stream.after(r.shard_id, at, 2) if x.sequence <= r.upto]
            if not records:
                return
            stream.checker.delivered(name, fence, records, owner)
            at = records[-1].sequence


def _ignoring_loss(call: Callable[..., None], *arguments: object) -> None:
    with suppress(LeaseLost):  # the batch is dropped: its new owner goes on from the checkpoint
        call(*arguments)


def _created_at(coordinator: Coordinator) -> datetime | None:
    header = coordinator.state.header
    return header.stream_created_at if header else None


def _number(position: Position) -> int:
    return int(position.sequence) if isinstance(position, After) else 0
