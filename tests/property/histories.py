"""Random histories of a resharding stream, as the service would keep it, and a consumer of it.

A history is a list of numbers, so that hypothesis can shrink one to the few steps that matter.
The consumer asks `core.lineage` what it may read. The bugs of real consumers are switches on it:
each must be caught by the checker, or the property proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from shardline.core.fences import Fence
from shardline.core.lineage import trace
from shardline.core.promise import PromiseChecker, RecordRef, Verdict
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard, hash_key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS = [f"key-{n}" for n in range(12)]
_LISTING_PAGE = 3


@dataclass
class Stored:
    """One shard with its records."""

    shard: Shard
    records: list[RecordRef] = field(default_factory=list)


class World:
    """A stream that reshards. Numbers begin at 95, so that 99 and 100 are soon neighbours."""

    def __init__(self, checker: PromiseChecker) -> None:
        self.checker = checker
        self.stored: dict[str, Stored] = {}
        self.trimmed: set[str] = set()
        self._hidden: str | None = None
        self._number = 95
        self._made = 0
        half = HASH_SPACE_END // 2
        self._open((), HashRange(0, half))
        self._open((), HashRange(half + 1, HASH_SPACE_END))

    def put(self, key: str) -> None:
        hash_key = hash_key_of(key)
        home = next(s for s in self.open_shards() if hash_key in (s.hash_range or HashRange(0, 0)))
        record = RecordRef(key, self._next_number())
        self.stored[home.id].records.append(record)
        self.checker.wrote(home.id, record)

    def split(self, choice: int) -> None:
        candidates = self.open_shards()
        parent = candidates[choice % len(candidates)]
        whole = parent.hash_range
        assert whole is not None
        if whole.end - whole.start < 2:
            return
        middle = (whole.start + whole.end) // 2
        self._close(parent)
        self._open((parent.id,), HashRange(whole.start, middle))
        self._open((parent.id,), HashRange(middle + 1, whole.end))

    def merge(self, choice: int) -> None:
        ordered = sorted(self.open_shards(), key=lambda s: s.hash_range or HashRange(0, 0))
        if len(ordered) < 2:
            return
        index = choice % (len(ordered) - 1)
        left, right = ordered[index], ordered[index + 1]
        assert left.hash_range is not None
        assert right.hash_range is not None
        self._close(left)
        self._close(right)
        self._open((left.id, right.id), HashRange(left.hash_range.start, right.hash_range.end))

    def trim_oldest(self) -> None:
        """Remove the closed shard that closed first, unread records and all."""
        closed = [s.shard for s in self.stored.values() if s.shard.closed]
        if closed:
            oldest = min(closed, key=lambda s: int(s.last or SequenceNumber("0")))
            del self.stored[oldest.id]
            self.trimmed.add(oldest.id)

    def open_shards(self) -> list[Shard]:
        return [s.shard for s in self.stored.values() if not s.shard.closed]

    def hide(self, choice: int) -> None:
        """Leave one shard out of the next listing, as a stale replica would."""
        self._hidden = list(self.stored)[choice % len(self.stored)]

    def listing(self) -> list[Shard]:
        hidden, self._hidden = self._hidden, None
        return [s.shard for s in self.stored.values() if s.shard.id != hidden]

    def _open(self, parents: tuple[str, ...], hash_range: HashRange) -> None:
        shard_id = f"shard-{self._made}"
        self._made += 1
        first = SequenceNumber(str(self._next_number()))
        self.stored[shard_id] = Stored(Shard(shard_id, parents, hash_range, first))
        self.checker.shard(shard_id, parents)

    def _close(self, shard: Shard) -> None:
        last = SequenceNumber(str(self._next_number()))  # a bound that no record has
        self.stored[shard.id].shard = Shard(
            shard.id, shard.parents, shard.hash_range, shard.first, last
        )

    def _next_number(self) -> int:
        self._number += 1
        return self._number


class Bug(Enum):
    """A mistake that a consumer in use today made."""

    NONE = auto()
    CHILD_BEFORE_PARENT = auto()
    ONE_MERGE_PARENT = auto()
    CLOSED_IS_DRAINED = auto()
    DRAINED_WHEN_FETCHED = auto()
    MISSING_IS_GONE = auto()
    STRINGS_COMPARED = auto()
    FIRST_PAGE_ONLY = auto()


class Consumer:
    """Reads a world by lineage, a few records at a time, and is killed now and then."""

    def __init__(self, world: World, checker: PromiseChecker, bug: Bug = Bug.NONE) -> None:
        self.world, self.checker, self.bug = world, checker, bug
        self.known = {shard.id for shard in world.listing()}
        self.checkpoints: dict[str, int] = {}
        self.drained: set[str] = set()
        self.gone: set[str] = set()
        self._batch = 0

    def step(self, choice: int, *, crash: bool = False) -> bool:
        """Read one batch of one shard; a crash comes after the delivery, before the checkpoint."""
        readable = self._readable()
        if not readable:
            return False
        shard = readable[choice % len(readable)]
        self._batch += 1
        after = self.checkpoints.setdefault(shard.id, -1)
        unread = [r for r in self.world.stored[shard.id].records if self._is_after(r, after)]
        page = unread[: 1 + choice % 3]
        at_end = len(page) == len(unread) and shard.closed
        if self.bug is Bug.DRAINED_WHEN_FETCHED and at_end:
            self.drained.add(shard.id)
            if crash:
                return True
        self.checker.delivered(shard.id, Fence(0, self._batch), page)
        if crash:
            return True
        if page:
            self.checkpoints[shard.id] = page[-1].sequence
            self.checker.checkpointed(shard.id, 0, page[-1].sequence)
        if at_end:
            self.drained.add(shard.id)
            self.checker.checkpointed(shard.id, 0, None)
        return bool(page) or at_end

    def _readable(self) -> list[Shard]:
        listed = self.world.listing()
        if self.bug is Bug.FIRST_PAGE_ONLY:
            listed = listed[:_LISTING_PAGE]
        self.known |= {shard.id for shard in listed}
        self._ask_for_the_missing(listed)
        drained = set(self.drained)
        match self.bug:
            case Bug.CHILD_BEFORE_PARENT:
                listed = [Shard(s.id, (), s.hash_range, s.first, s.last) for s in listed]
            case Bug.ONE_MERGE_PARENT:
                listed = [Shard(s.id, s.parents[:1], s.hash_range, s.first, s.last) for s in listed]
            case Bug.CLOSED_IS_DRAINED:
                drained |= {s.id for s in listed if s.closed}
        lineage = trace(listed, drained=drained, known=self.known, gone=self.gone)
        return [s for s in lineage.readable if s.id in self.world.stored]

    def _ask_for_the_missing(self, listed: Sequence[Shard]) -> None:
        lineage = trace(listed, drained=self.drained, known=self.known, gone=self.gone)
        for shard_id in lineage.undiscovered:
            if self.bug is Bug.MISSING_IS_GONE:
                self.gone.add(shard_id)
            elif shard_id in self.world.trimmed:  # the service says so for this very shard
                self.gone.add(shard_id)
                # Between it and what is listed others may have come and gone, unseen.
                for lost in self.world.trimmed - self.drained:
                    self.checker.gap(lost)
        for shard_id in lineage.gaps:
            self.drained.add(shard_id)

    def _is_after(self, record: RecordRef, after: int) -> bool:
        if self.bug is Bug.STRINGS_COMPARED:
            return after < 0 or str(record.sequence) > str(after)
        return record.sequence > after


def play(steps: Sequence[int], bug: Bug = Bug.NONE, *, trims: bool = True) -> Verdict:
    """Let a world and a consumer take turns as the numbers say, then drain what is left."""
    checker = PromiseChecker()
    world = World(checker)
    consumer = Consumer(world, checker, bug)
    for step in steps:
        choice = step // 10
        match step % 10:
            case 0:
                world.split(choice)
            case 1:
                world.merge(choice)
            case 2:
                world.trim_oldest() if trims else world.hide(choice)
            case 3:
                consumer.step(choice, crash=True)
            case 4 | 5:
                consumer.step(choice)
            case _:
                world.put(KEYS[choice % len(KEYS)])
    while sum(consumer.step(choice) for choice in range(64)):
        pass  # a round in which no shard brought anything ends it
    return checker.verdict()
