"""The one checker of the promises: order, nothing lost, parents first, one effective owner.

It is given what was written, what was delivered under which fence, what was checkpointed and
which gaps were declared, and judges. Every level of tests uses it, the demo does, and so may you.

The words are exact. Each delivery carries a fence. A delivery under an epoch below the highest
seen for its shard, or of a key under a fence below the highest seen for that key in the shard, is
*stale*: it is counted, and it is neither order nor progress. All others, as they come, must bring
every key's records in written order, except that a higher fence may go back as far as the last
checkpoint, and no further.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from shardline.errors import PromiseBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.core.fences import Fence

_EXAMPLES_KEPT: Final = 20


class RecordRef(NamedTuple):
    """Which record: its key, and its place in its shard."""

    key: str
    sequence: int
    sub_sequence: int = 0


class Breach(Enum):
    """A way to break a promise."""

    OUT_OF_ORDER = "out of order"
    CHILD_BEFORE_PARENT = "child before parent"
    REPLAYED_CHECKPOINTED = "replayed from before the checkpoint"
    CHECKPOINTED_UNDELIVERED = "checkpointed but never delivered"
    CHECKPOINT_WENT_BACK = "checkpoint went back"
    TWO_OWNERS = "two owners under one epoch"
    ZOMBIE_CHECKPOINT = "checkpoint under an old epoch succeeded"
    INVENTED = "delivered but never written"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker found."""

    written: int
    delivered: int
    """Different records, each counted once."""
    lost: int
    out_of_order: int
    repeated: int
    """Deliveries of records that had been delivered before; allowed after a crash."""
    stale: int
    """Records in deliveries below the highest fence."""
    in_gaps: int
    """Undelivered, and reported as a gap."""
    breaches: Mapping[Breach, int]
    examples: tuple[str, ...]
    """The first few breaches, a line each."""

    @property
    def kept(self) -> bool:
        """Return true if every promise was kept."""
        return not self.breaches

    def require(self) -> Verdict:
        """Return the verdict, or raise `PromiseBroken` with the first few breaches."""
        if self.kept:
            return self
        counts = ", ".join(f"{n} × {breach.value}" for breach, n in self.breaches.items())
        raise PromiseBroken("\n  ".join((f"promise broken: {counts}", *self.examples)))


class PromiseChecker:
    """Checks a history event by event. Record a write before its delivery."""

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = defaultdict(_Key)
        self._shards: dict[str, _ShardHistory] = defaultdict(_ShardHistory)
        self._breaches: dict[Breach, int] = {}
        self._examples: list[str] = []
        self._repeated = 0
        self._stale = 0

    def shard(self, shard_id: str, parents: Iterable[str] = ()) -> None:
        """Record a shard and its parents."""
        self._shards[shard_id].parents = tuple(parents)

    def wrote(self, shard_id: str, record: RecordRef) -> None:
        """Record what the service accepted; call it for each key in the order of writing."""
        shard, key = self._shards[shard_id], self._keys[record.key]
        shard.records.append((record.sequence, record.sub_sequence, record.key, len(key.passed)))
        shard.index_of[record.sequence, record.sub_sequence] = len(key.passed)
        shard.undelivered += 1
        key.passed.append(_PENDING)

    def delivered(
        self, shard_id: str, fence: Fence, records: Iterable[RecordRef], owner: str = ""
    ) -> bool:
        """Record a delivery to the consumer, in the order observed; false if all was stale."""
        shard = self._shards[shard_id]
        if fence.epoch < shard.epoch:
            self._stale += sum(1 for _ in records)
            return False
        shard.epoch = fence.epoch
        self._check_owner(shard_id, shard, fence.epoch, owner)
        self._check_ancestors(shard_id, shard)
        fresh = False
        for record in records:
            highest = shard.fence_of_key.get(record.key)
            if highest is not None and fence < highest:
                self._stale += 1
                continue
            if fence != highest:
                shard.fence_of_key[record.key] = fence
                shard.latest_of_key.pop(record.key, None)
            fresh = True
            self._deliver(shard_id, shard, record)
        return fresh

    def checkpointed(
        self, shard_id: str, epoch: int, upto: tuple[int, int] | int | None, owner: str = ""
    ) -> None:
        """Record a checkpoint that succeeded; `upto` None means the end of the shard."""
        shard = self._shards[shard_id]
        if epoch < shard.epoch:
            self._breach(
                Breach.ZOMBIE_CHECKPOINT,
                f"{shard_id}: {owner or 'somebody'} checkpointed under epoch {epoch}, "
                f"but epoch {shard.epoch} had begun",
            )
        self._check_owner(shard_id, shard, epoch, owner)
        place = _END if upto is None else (upto, _WHOLE) if isinstance(upto, int) else upto
        if place < shard.checkpoint:
            self._breach(Breach.CHECKPOINT_WENT_BACK, f"{shard_id}: to {place[0]}")
            return
        shard.checkpoint = place
        self._acknowledge(shard_id, shard, place)

    def gap(self, shard_id: str, after: int = -1, before: int | None = None) -> None:
        """Record a declared gap: what lies between the two numbers is excused, both excluded."""
        shard = self._shards[shard_id]
        for sequence, _, key, index in shard.records:
            inside = sequence > after and (before is None or sequence < before)
            if inside and self._keys[key].passed[index] is _PENDING:
                self._keys[key].passed[index] = _EXCUSED
                shard.undelivered -= 1

    def rewound(self, shard_id: str, upto: tuple[int, int] | int) -> None:
        """Record that a checkpoint was set back by hand: what came after it may come again."""
        shard = self._shards[shard_id]
        shard.checkpoint = (upto, _WHOLE) if isinstance(upto, int) else upto
        shard.acknowledged = 0
        for sequence, sub_sequence, key, index in shard.records:
            if (sequence, sub_sequence) <= shard.checkpoint:
                shard.acknowledged += 1
            elif self._keys[key].passed[index] is _ACKNOWLEDGED:
                self._keys[key].passed[index] = _DELIVERED

    def verdict(self) -> Verdict:
        """Judge what was recorded so far; undelivered records count as lost."""
        marks = [mark for key in self._keys.values() for mark in key.passed]
        lost = marks.count(_PENDING)
        breaches = dict(self._breaches)
        examples = list(self._examples)
        if lost:
            breaches[Breach.LOST] = lost
            examples.extend(self._lost_examples())
        return Verdict(
            written=len(marks),
            delivered=marks.count(_DELIVERED) + marks.count(_ACKNOWLEDGED),
            lost=lost,
            out_of_order=breaches.get(Breach.OUT_OF_ORDER, 0),
            repeated=self._repeated,
            stale=self._stale,
            in_gaps=marks.count(_EXCUSED),
            breaches=breaches,
            examples=tuple(examples),
        )

    def _deliver(self, shard_id: str, shard: _ShardHistory, record: RecordRef) -> None:
        index = shard.index_of.get((record.sequence, record.sub_sequence))
        if index is None:
            self._breach(Breach.INVENTED, f"{shard_id}: {record}")
            return
        key = self._keys[record.key]
        if key.passed[index] is _ACKNOWLEDGED:
            self._breach(
                Breach.REPLAYED_CHECKPOINTED,
                f"{shard_id}: record {index} of key {record.key!r} came again",
            )
        latest = shard.latest_of_key.get(record.key)
        missing = key.first_pending(index, since=-1 if latest is None else latest)
        if latest is not None and index <= latest:
            self._breach(
                Breach.OUT_OF_ORDER,
                f"{shard_id}: record {index} of key {record.key!r} came after record {latest}",
            )
        elif missing is not None:
            self._breach(
                Breach.OUT_OF_ORDER,
                f"{shard_id}: record {index} of key {record.key!r} came before record {missing}",
            )
        elif latest is not None and key.skipped(latest, index):
            self._breach(
                Breach.OUT_OF_ORDER,
                f"{shard_id}: a replay of key {record.key!r} jumped from {latest} to {index}",
            )
        shard.latest_of_key[record.key] = index
        if key.passed[index] is _DELIVERED:
            self._repeated += 1
        elif key.passed[index] in {_PENDING, _EXCUSED}:
            shard.undelivered -= key.passed[index] is _PENDING
            key.passed[index] = _DELIVERED

    def _acknowledge(self, shard_id: str, shard: _ShardHistory, place: tuple[int, int]) -> None:
        while shard.acknowledged < len(shard.records):
            sequence, sub_sequence, key, index = shard.records[shard.acknowledged]
            if (sequence, sub_sequence) > place:
                return
            shard.acknowledged += 1
            if self._keys[key].passed[index] is _PENDING:
                self._breach(
                    Breach.CHECKPOINTED_UNDELIVERED,
                    f"{shard_id}: record {index} of key {key!r} at {sequence}",
                )
            elif self._keys[key].passed[index] is _DELIVERED:
                self._keys[key].passed[index] = _ACKNOWLEDGED

    def _check_owner(self, shard_id: str, shard: _ShardHistory, epoch: int, owner: str) -> None:
        first = shard.owners.setdefault(epoch, owner)
        if first != owner:
            self._breach(
                Breach.TWO_OWNERS, f"{shard_id}: {first} and {owner}, both under epoch {epoch}"
            )

    def _check_ancestors(self, shard_id: str, shard: _ShardHistory) -> None:
        if shard.ancestors_done:
            return
        frontier, seen = list(shard.parents), set[str]()
        while frontier:
            ancestor = frontier.pop()
            if ancestor in seen or ancestor not in self._shards:
                continue
            seen.add(ancestor)
            if self._shards[ancestor].undelivered:
                self._breach(
                    Breach.CHILD_BEFORE_PARENT,
                    f"{shard_id} was delivered from while {ancestor} had "
                    f"{self._shards[ancestor].undelivered} undelivered",
                )
            frontier.extend(self._shards[ancestor].parents)
        shard.ancestors_done = True

    def _breach(self, breach: Breach, example: str) -> None:
        self._breaches[breach] = self._breaches.get(breach, 0) + 1
        if len(self._examples) < _EXAMPLES_KEPT:
            self._examples.append(f"{breach.value}: {example}")

    def _lost_examples(self) -> list[str]:
        return [
            f"{Breach.LOST.value}: record {index} of key {key!r}"
            for key, history in sorted(self._keys.items())
            for index, mark in enumerate(history.passed)
            if mark is _PENDING
        ][:_EXAMPLES_KEPT]


class _Mark(Enum):
    PENDING = 0
    EXCUSED = 1
    DELIVERED = 2
    ACKNOWLEDGED = 3


_PENDING: Final = _Mark.PENDING
_EXCUSED: Final = _Mark.EXCUSED
_DELIVERED: Final = _Mark.DELIVERED
_ACKNOWLEDGED: Final = _Mark.ACKNOWLEDGED

_WHOLE: Final = 1 << 62  # above every sub-sequence number: the record as a whole
_END: Final = (1 << 512, 0)  # above every sequence number: they have at most 129 digits


class _Key:
    """One key's records in written order, and what became of each."""

    __slots__ = ("_first_pending", "passed")

    def __init__(self) -> None:
        self.passed: list[_Mark] = []
        self._first_pending = 0

    def first_pending(self, before: int, since: int) -> int | None:
        """Return the first record between `since` and `before` that never came."""
        while (
            self._first_pending < len(self.passed)
            and self.passed[self._first_pending] is not _PENDING
        ):
            self._first_pending += 1
        for index in range(max(self._first_pending, since + 1), before):
            if self.passed[index] is _PENDING:
                return index
        return None

    def skipped(self, latest: int, index: int) -> bool:
        """Return true if one delivery jumped over a record that is not excused."""
        return any(self.passed[i] is not _EXCUSED for i in range(latest + 1, index))


class _ShardHistory:
    """What happened in one shard."""

    __slots__ = (
        "_delivery_epoch", "acknowledged", "ancestors_done", "checkpoint", "fence_of_key",
        "index_of", "latest_of_key", "owners", "parents", "records", "undelivered",
    )  # fmt: skip

    def __init__(self) -> None:
        self.parents: tuple[str, ...] = ()
        self.records: list[tuple[int, int, str, int]] = []
        self.index_of: dict[tuple[int, int], int] = {}
        self.undelivered = 0
        self._delivery_epoch = -1
        self.fence_of_key: dict[str, Fence] = {}
        self.latest_of_key: dict[str, int] = {}
        self.owners: dict[int, str] = {}
        self.checkpoint: tuple[int, int] = (-1, 0)
        self.acknowledged = 0
        self.ancestors_done = False

    @property
    def epoch(self) -> int:
        """The highest epoch seen in a delivery or a checkpoint."""
        return max(self._delivery_epoch, *self.owners) if self.owners else self._delivery_epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._delivery_epoch = epoch
