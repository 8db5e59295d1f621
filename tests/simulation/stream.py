"""A stream that reshards, lists late, and trims; and the truth about what was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NoReturn

from shardline.core.promise import PromiseChecker, RecordRef
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard
from shardline.services.port import StreamDescription

if TYPE_CHECKING:
    from random import Random

    from shardline.core.positions import Position
    from tests.simulation.clockwork import Clockwork

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class SimShard:
    id: str
    parents: tuple[str, ...]
    hashes: HashRange
    first: int
    listed_from: float
    """Listings show it from this moment on."""
    closed_at: int | None = None
    looks_open_until: float = 0.0
    records: list[RecordRef] = field(default_factory=list)
    gone: bool = False


class SimStream:
    """One stream; shard ids and sequence numbers are small and readable."""

    finds_times = True

    def __init__(
        self, name: str, clockwork: Clockwork, random: Random, checker: PromiseChecker, shards: int
    ) -> None:
        self.name = name
        self.checker = checker
        self._clockwork = clockwork
        self._random = random
        self._sequence = 0
        self._keys = 6
        self.lag_seconds = random.choice((0.0, 0.0, 4.0))
        self.cut_listings = False
        self.created_at = EPOCH
        self.incarnation = 0
        self.shards: dict[str, SimShard] = {}
        self._found(shards)

    # --- as a service -----------------------------------------------------------------------

    def describe(self) -> StreamDescription:
        # Expired by the clock of this world as soon as it is: shards vanish when a fault says so.
        return StreamDescription(self.name, self.name, self.created_at, True, 60)

    def list_shards(self) -> tuple[Shard, ...]:
        now = self._clockwork.now
        shown = [s for s in self.shards.values() if s.listed_from <= now and not s.gone]
        if self.cut_listings and len(shown) > 1 and self._random.random() < 0.5:
            shown = shown[: len(shown) // 2]
        return tuple(self._as_listed(s, now) for s in shown)

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        return tuple(shard for shard in self.list_shards() if shard_id in shard.parents)

    def has_shard(self, shard_id: str) -> bool:
        return shard_id in self.shards and not self.shards[shard_id].gone

    @property
    def columns(self) -> NoReturn:
        raise NotImplementedError

    def open(self, shard_id: str, position: Position) -> NoReturn:
        raise NotImplementedError

    def read(self, iterator: str, max_records: int) -> NoReturn:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def _as_listed(self, shard: SimShard, now: float) -> Shard:
        closed = shard.closed_at is not None and shard.looks_open_until <= now
        return Shard(
            shard.id,
            shard.parents,
            shard.hashes,
            SequenceNumber(str(shard.first)),
            SequenceNumber(str(shard.closed_at)) if closed else None,
        )

    # --- as a source of records -------------------------------------------------------------

    def after(self, shard_id: str, sequence: int, limit: int) -> list[RecordRef]:
        """Return up to `limit` records behind a sequence number."""
        records = self.shards[shard_id].records
        return [r for r in records if r.sequence > sequence][:limit]

    def ends_at(self, shard_id: str, sequence: int) -> bool:
        """Say whether a closed shard has nothing behind a sequence number."""
        shard = self.shards[shard_id]
        return shard.closed_at is not None and not self.after(shard_id, sequence, 1)

    # --- what happens to it -----------------------------------------------------------------

    def put(self) -> None:
        key = self._random.randrange(self._keys)
        hash_key = (2 * key + 1) * (HASH_SPACE_END + 1) // (2 * self._keys)
        shard = next(s for s in self.open_shards() if hash_key in s.hashes)
        self._sequence += 1
        record = RecordRef(f"{self.name}.{self.incarnation}.k{key}", self._sequence)
        shard.records.append(record)
        self.checker.wrote(self.named(shard.id), record)

    def split(self) -> None:
        parent = self._random.choice(self.open_shards())
        middle = (parent.hashes.start + parent.hashes.end) // 2
        self._close(parent)
        self._open((parent.id,), HashRange(parent.hashes.start, middle))
        self._open((parent.id,), HashRange(middle + 1, parent.hashes.end))

    def merge(self) -> None:
        side_by_side = sorted(self.open_shards(), key=lambda s: s.hashes.start)
        if len(side_by_side) > 1:
            i = self._random.randrange(len(side_by_side) - 1)
            left, right = side_by_side[i : i + 2]
            self._close(left)
            self._close(right)
            self._open((left.id, right.id), HashRange(left.hashes.start, right.hashes.end))

    def expire(self) -> None:
        """Remove the oldest closed shard, read or not: what was not read is excused."""
        closed = [s for s in self.shards.values() if s.closed_at is not None and not s.gone]
        if closed:
            shard = closed[0]
            shard.gone = True
            shard.records.clear()
            self.checker.gap(self.named(shard.id))

    def recreate(self) -> None:
        """Delete the stream and make it again under its name, with the same shard ids."""
        for shard in self.shards.values():
            self.checker.gap(self.named(shard.id))
        self.created_at += timedelta(hours=1)
        self.incarnation += 1
        self.shards.clear()
        self._found(2)

    def open_shards(self) -> list[SimShard]:
        return [s for s in self.shards.values() if s.closed_at is None]

    def named(self, shard_id: str) -> str:
        """Name a shard for the checker, which sees all streams at once."""
        return f"{self.name}.{self.incarnation}.{shard_id}"

    def _found(self, shards: int) -> None:
        step = (HASH_SPACE_END + 1) // shards
        for i in range(shards):
            end = HASH_SPACE_END if i == shards - 1 else (i + 1) * step - 1
            self._open((), HashRange(i * step, end))

    def _open(self, parents: tuple[str, ...], hashes: HashRange) -> None:
        shard_id = f"s{len(self.shards)}"
        self._sequence += 1
        listed_from = self._clockwork.now + self.lag_seconds * self._random.random()
        self.shards[shard_id] = SimShard(shard_id, parents, hashes, self._sequence, listed_from)
        self.checker.shard(self.named(shard_id), [self.named(p) for p in parents])

    def _close(self, shard: SimShard) -> None:
        self._sequence += 1
        shard.closed_at = self._sequence
        shard.looks_open_until = self._clockwork.now + self.lag_seconds * self._random.random()
