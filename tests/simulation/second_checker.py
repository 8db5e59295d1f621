"""A second checker of the promises: judges a whole history at once, with sets of bits.

It shares no code with `core.promise`. The records of a key, in written order, are the bits of a
number; so are the records of a shard. What was delivered, excused and acknowledged are three such
numbers for each key, and every rule is a question about them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.history import (
    Checkpointed,
    Delivered,
    Excused,
    Rewound,
    ShardOpened,
    Wrote,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.history import Event

Fence = tuple[int, int]


@dataclass(slots=True)
class Findings:
    """What was found, by the names of `core.promise.Breach`."""

    kinds: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    repeated: int = 0
    stale: int = 0


@dataclass(slots=True)
class _Key:
    size: int = 0
    delivered: int = 0
    excused: int = 0
    acknowledged: int = 0

    @property
    def pending(self) -> int:
        return ((1 << self.size) - 1) & ~(self.delivered | self.excused)


@dataclass(slots=True)
class _Shard:
    parents: tuple[str, ...] = ()
    numbers: list[int] = field(default_factory=list)
    bits: list[tuple[str, int]] = field(default_factory=list)
    """Of each record: its key, and its bit there."""
    covered: int = 0
    """How many records lie before the checkpoint."""
    checkpoint: float = -1
    epoch: int = -1
    owners: dict[int, str] = field(default_factory=dict)
    fences: dict[str, tuple[Fence, int]] = field(default_factory=dict)
    """Of each key: the highest fence, and the last bit that came under it."""
    judged_as_child: bool = False


def check(events: Iterable[Event]) -> Findings:
    """Judge a history."""
    return _Check().run(events)


class _Check:
    def __init__(self) -> None:
        self._found = Findings()
        self._keys: dict[str, _Key] = {}
        self._shards: dict[str, _Shard] = {}

    def run(self, events: Iterable[Event]) -> Findings:
        for event in events:
            shard = self._shards.setdefault(event.shard, _Shard())
            match event:
                case ShardOpened(_, parents):
                    shard.parents = parents
                case Wrote(_, record):
                    key = self._keys.setdefault(record.key, _Key())
                    shard.numbers.append(record.sequence)
                    shard.bits.append((record.key, 1 << key.size))
                    key.size += 1
                case Delivered():
                    self._deliver(shard, event)
                case Checkpointed():
                    self._checkpoint(shard, event)
                case Excused(_, after, before):
                    first = bisect_right(shard.numbers, after)
                    last = len(shard.numbers)
                    last = last if before is None else bisect_left(shard.numbers, before)
                    for name, bit in shard.bits[first:last]:
                        key = self._keys[name]
                        key.excused |= bit & ~key.delivered
                case Rewound(_, upto):
                    shard.checkpoint = upto
                    shard.covered = bisect_right(shard.numbers, upto)
                    for name, bit in shard.bits[shard.covered :]:
                        self._keys[name].acknowledged &= ~bit
        self._found.lost = sum(key.pending.bit_count() for key in self._keys.values())
        if self._found.lost:
            self._found.kinds["LOST"] = self._found.lost
        return self._found

    def _deliver(self, shard: _Shard, event: Delivered) -> None:
        if event.fence.epoch < shard.epoch:
            self._found.stale += len(event.records)
            return
        self._own(shard, event.fence.epoch, event.owner)
        if not shard.judged_as_child:
            shard.judged_as_child = True
            self._found.kinds["CHILD_BEFORE_PARENT"] += sum(
                any(self._keys[name].pending & bit for name, bit in self._shards[above].bits)
                for above in self._ancestors(event.shard)
            )
        for record in event.records:
            fence: Fence = (event.fence.epoch, event.fence.delivery)
            highest, last_bit = shard.fences.get(record.key, (fence, 0))
            if fence < highest:
                self._found.stale += 1
                continue
            if fence > highest:
                last_bit = 0
            bit = self._bit(shard, record.sequence)
            if bit is None:
                self._found.kinds["INVENTED"] += 1
                shard.fences[record.key] = (fence, last_bit)
                continue
            shard.fences[record.key] = (fence, bit)
            self._receive(self._keys[record.key], bit, last_bit)

    def _receive(self, key: _Key, bit: int, last_bit: int) -> None:
        if key.acknowledged & bit:
            self._found.kinds["REPLAYED_CHECKPOINTED"] += 1
        before = bit - 1
        since = before & ~(2 * last_bit - 1) if last_bit else before
        jumped = last_bit and since & ~key.excused
        if bit <= last_bit or since & key.pending or jumped:
            self._found.kinds["OUT_OF_ORDER"] += 1
        if key.delivered & bit and not key.acknowledged & bit:
            self._found.repeated += 1
        key.delivered |= bit
        key.excused &= ~bit

    def _checkpoint(self, shard: _Shard, event: Checkpointed) -> None:
        if event.epoch < shard.epoch:
            self._found.kinds["ZOMBIE_CHECKPOINT"] += 1
        self._own(shard, event.epoch, event.owner)
        upto = float("inf") if event.upto is None else event.upto
        if upto < shard.checkpoint:
            self._found.kinds["CHECKPOINT_WENT_BACK"] += 1
            return
        shard.checkpoint = upto
        covered = bisect_right(shard.numbers, upto)
        for name, bit in shard.bits[shard.covered : covered]:
            key = self._keys[name]
            self._found.kinds["CHECKPOINTED_UNDELIVERED"] += bool(key.pending & bit)
            key.acknowledged |= bit & key.delivered
        shard.covered = max(shard.covered, covered)

    def _own(self, shard: _Shard, epoch: int, owner: str) -> None:
        shard.epoch = max(shard.epoch, epoch)
        self._found.kinds["TWO_OWNERS"] += shard.owners.setdefault(epoch, owner) != owner

    def _bit(self, shard: _Shard, number: int) -> int | None:
        place = bisect_left(shard.numbers, number)
        found = place < len(shard.numbers) and shard.numbers[place] == number
        return shard.bits[place][1] if found else None

    def _ancestors(self, name: str) -> set[str]:
        found: set[str] = set()
        frontier = [name]
        while frontier:
            for parent in self._shards[frontier.pop()].parents:
                if parent in self._shards and parent not in found:
                    found.add(parent)
                    frontier.append(parent)
        return found
