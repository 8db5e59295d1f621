"""Workers on one table and one clock that moves only when told."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from shardline.core.leasing.holdings import AT_WORK
from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import After
from shardline.core.shards import HashRange, SequenceNumber, Shard
from shardline.leases.coordinator import Coordinator
from shardline.leases.port import TableUnavailable
from shardline.services.port import StreamDescription
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.core.leasing.holdings import Held
    from shardline.core.leasing.rows import LeaseRow
    from shardline.core.leasing.state import LeaseState

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = ("app", "orders")
_TABLE_CALLS = {"read", "scan", "swap", "create", "delete", "bump", "write", "park", "prepare"}


class Listing:
    """A stream service that only lists."""

    finds_times = True

    def __init__(self, shards: tuple[Shard, ...]) -> None:
        self.shards = shards
        self.created_at = BIRTH
        self.active = True
        self.failing: Exception | None = None
        self.listings = 0

    def describe(self) -> StreamDescription:
        self._answer()
        return StreamDescription("orders", "arn", self.created_at, self.active, 86_400)

    def list_shards(self) -> tuple[Shard, ...]:
        self._answer()
        self.listings += 1
        return self.shards

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        self._answer()
        return tuple(shard for shard in self.shards if shard_id in shard.parents)

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing

    def has_shard(self, shard_id: str) -> bool:
        self._answer()
        return any(shard.id == shard_id for shard in self.shards)

    def close(self) -> None:
        """Nothing to close."""

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
            today=self.today,
            **options,
        )
        self.workers.append(coordinator)
        return coordinator

    def today(self) -> datetime:
        return BIRTH + timedelta(seconds=self.now)

    @contextmanager
    def table_away(self) -> Iterator[None]:
        """Let no call reach the table for a while."""
        names = [n for n in dir(self.table) if n.partition("_")[0] in _TABLE_CALLS]
        for name in names:
            setattr(self.table, name, _no_answer)
        try:
            yield
        finally:
            for name in names:
                delattr(self.table, name)

    def lose(self, worker: Coordinator) -> None:
        """Let a worker crash: it ticks no more."""
        self.workers.remove(worker)

    def let_pass(self, seconds: float) -> None:
        """Let time pass; everybody ticks once a second, and finishes what it is asked for."""
        until = self.now + seconds
        while True:
            for worker in self.workers:
                worker.tick()
                require_consistent(worker.state)
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


def _no_answer(*_: object, **__: object) -> NoReturn:
    raise TableUnavailable("no answer")


def after(number: int) -> After:
    return After(SequenceNumber(str(number)))


def whole_ring(parts: int) -> tuple[Shard, ...]:
    step = 2**128 // parts
    return tuple(
        Shard(f"s{i}", hash_range=HashRange(i * step, (i + 1) * step - 1)) for i in range(parts)
    )


def require_consistent(state: LeaseState) -> None:
    """Raise AssertionError if what a worker knows contradicts itself."""
    ledger = state.ledger
    indexed = {i: owner for owner, ids in ledger.owned.items() for i in ids}
    unfinished = {i: r.lease_owner for i, r in ledger.rows.items() if not r.completed}
    created_at = ledger.header.stream_created_at if ledger.header else None
    at_work = {i for i, h in state.holdings.by_shard.items() if h.stage in AT_WORK}
    checks = {
        "the index of owners differs from the rows": indexed == unfinished,
        "completed, but not by its row": ledger.completed == ledger.rows.keys() - unfinished.keys(),
        "a completed shard is leasable": not ledger.leasable & ledger.completed,
        "rows of another stream are mixed in": {r.stream_created_at for r in ledger.rows.values()}
        <= {created_at},
        "promises what it does not work on": state._handovers.giving.keys() <= at_work,
    }
    problems = [problem for problem, holds in checks.items() if not holds]
    assert not problems, f"{state.owner}: {problems}\n{state.log.lines()}"
