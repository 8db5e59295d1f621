"""Workers on one table and one clock that moves only when told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import After
from shardline.core.shards import HashRange, SequenceNumber, Shard
from shardline.leases.coordinator import Coordinator
from shardline.leases.memory import MemoryLeaseTable
from shardline.services.port import StreamDescription

if TYPE_CHECKING:
    from shardline.core.leasing.holdings import Held
    from shardline.core.leasing.rows import LeaseRow

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = ("app", "orders")


class Listing:
    """A stream service that only lists."""

    finds_times = True

    def __init__(self, shards: tuple[Shard, ...]) -> None:
        self.shards = shards
        self.created_at = BIRTH
        self.active = True

    def describe(self) -> StreamDescription:
        return StreamDescription("orders", "arn", self.created_at, self.active, 86_400)

    def list_shards(self) -> tuple[Shard, ...]:
        return self.shards

    def has_shard(self, shard_id: str) -> bool:
        return any(shard.id == shard_id for shard in self.shards)

    def split(self, shard_id: str, *children: str) -> None:
        """Close a shard, and list its children."""
        self.shards = tuple(
            replace(s, last=SequenceNumber("900")) if s.id == shard_id else s for s in self.shards
        ) + tuple(Shard(child, (shard_id,)) for child in children)

    def drop(self, shard_id: str) -> None:
        """Trim a shard away."""
        self.shards = tuple(s for s in self.shards if s.id != shard_id)


class Notes:
    """Shard work that only notes what it is told."""

    def __init__(self) -> None:
        self.words: list[tuple[Any, ...]] = []

    def start(self, shard_id: str, epoch: int, lease: Held) -> None:
        self.words.append(("start", shard_id, epoch, lease.checkpoint))

    def finish(self, shard_id: str, epoch: int) -> None:  # noqa: ARG002
        self.words.append(("finish", shard_id))

    def stop(self, shard_id: str, epoch: int) -> None:  # noqa: ARG002
        self.words.append(("stop", shard_id))


class Stage:
    """Workers, a table, a listing and a clock."""

    def __init__(self, shards: int = 2, **times: Any) -> None:
        self.now = 100.0
        self.table = MemoryLeaseTable()
        self.listing = Listing(tuple(Shard(f"s{i}") for i in range(shards)))
        self.times = LeaseTimes(**{"lease_seconds": 9.0, **times})
        self.workers: list[Coordinator] = []

    def worker(self, name: str, space: tuple[str, str] = SPACE, **options: Any) -> Coordinator:
        coordinator = Coordinator(
            self.table,
            self.listing,  # type: ignore[arg-type] # it need not read
            *space,
            name,
            times=self.times,
            clock=lambda: self.now,
            today=lambda: BIRTH + timedelta(seconds=self.now),
            **options,
        )
        self.workers.append(coordinator)
        return coordinator

    def lose(self, worker: Coordinator) -> None:
        """Let a worker crash: it ticks no more."""
        self.workers.remove(worker)

    def let_pass(self, seconds: float) -> None:
        """Let time pass; everybody ticks once a second, and finishes what it is asked for."""
        until = self.now + seconds
        while True:
            for worker in self.workers:
                worker.tick()
                worker.state.validate()
                for shard_id, lease in worker.held().items():
                    if lease.finishing:
                        worker.finish(shard_id, lease.epoch)
            if self.now + 1.0 > until:
                break
            self.now += 1.0
        self.now = until

    def rows(self) -> dict[str, LeaseRow]:
        return dict(self.table._rows[SPACE])

    def counts(self) -> list[int]:
        return sorted(len(worker.held()) for worker in self.workers)


def after(number: int) -> After:
    return After(SequenceNumber(str(number)))


def whole_ring(parts: int) -> tuple[Shard, ...]:
    step = 2**128 // parts
    return tuple(
        Shard(f"s{i}", hash_range=HashRange(i * step, (i + 1) * step - 1)) for i in range(parts)
    )
