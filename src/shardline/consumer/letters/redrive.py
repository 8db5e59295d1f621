"""Processes dead letters after all: in order for each key, under the leases of their shards.

Why it is safe while workers run:

- The shards are taken first. What their owners do after that is not acknowledged, and comes again.
- Then the parked keys are read, and then the letters. Two kinds of letters are removed instead of
  being processed, because their records are or were delivered again: those after the checkpoint,
  and those that were written for a parked key which is not parked now.
- A key is unparked, under the epoch of the take, when none of its letters is left. The next owner
  starts at the checkpoint and processes the records of the key that follow.

A letter that fails again stays, and so do the later letters of its key.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from shardline.consumer.consumer import ChangeOf, ShardBatch, ShardConsumer
from shardline.consumer.letters.letter import Letter, records_of_letters
from shardline.core.fences import Fence
from shardline.core.positions import After, Position, ShardEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from shardline.consumer.dead_letters import LetterBox
    from shardline.consumer.letters.held_shards import HeldShards
    from shardline.core.leasing.parked_keys import ParkedKey
    from shardline.core.leasing.rows import LeaseRow
    from shardline.leases.port import LeaseTable

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RedriveResult:
    """What became of the letters."""

    processed: int = 0
    stale: int = 0
    """Letters of records that are or were delivered again: removed."""
    failed: dict[str, str] = field(default_factory=dict)
    """The letters that failed again, with the reasons; the later ones of their keys wait."""
    waiting: int = 0
    """Letters that stay: those that failed, and those after them."""
    unparked: set[str] = field(default_factory=set)
    without_letters: set[str] = field(default_factory=set)
    """Keys that stay parked because no letter of theirs was found: they may have expired."""


def holders_of(shard_ids: Iterable[str], rows: Mapping[str, LeaseRow]) -> set[str]:
    """Return the shards whose owners may deliver the keys of these shards now.

    A shard itself until it is completed, then its children, and so on.
    """
    children: dict[str, set[str]] = {}
    for row in rows.values():
        for parent in row.parents:
            children.setdefault(parent, set()).add(row.shard_id)
    found: set[str] = set()
    seen: set[str] = set()
    frontier = set(shard_ids)
    while frontier:
        shard_id = frontier.pop()
        seen.add(shard_id)
        if shard_id in rows and not rows[shard_id].completed:
            found.add(shard_id)
        else:
            frontier |= children.get(shard_id, set()) - seen
    return found


class Redrive:
    """One app's letters of one stream, and the leases that are needed to process them."""

    def __init__(
        self, table: LeaseTable, held: HeldShards, rows: Mapping[str, LeaseRow], box: LetterBox
    ) -> None:
        """`rows` are the lease rows of all shards; `held` holds what `holders_of` named."""
        self._table = table
        self._held = held
        self._rows = {**rows, **held.rows}
        self._box = box

    def run(
        self,
        read: Callable[[], Sequence[Letter]],
        keys: Container[str] | None,
        make_consumer: Callable[[], ShardConsumer],
        change_of: ChangeOf | None = None,
    ) -> RedriveResult:
        """Process the letters of these keys, or of all, in the order in which `read` has them.

        A key that is named is unparked although it has no letters, if it is parked.
        """
        parked = [row for row in self._read_parked() if keys is None or row.key in keys]
        letters = [letter for letter in read() if keys is None or letter.key in keys]
        # Letters of other shards came after the leases were chosen: their keys are left alone.
        blocked = {letter.key for letter in letters if not self._covers(letter.shard_id)}
        letters = [letter for letter in letters if letter.key not in blocked]
        parked_keys = {row.key for row in parked}
        stale = {x.id: x for x in letters if self._comes_again(x, parked_keys)}
        self._held.require()
        self._box.remove(tuple(stale.values()))
        result = RedriveResult(stale=len(stale))
        work = _Consumers(make_consumer, self._epoch_of, change_of)
        try:
            for letter in letters:
                if letter.id not in stale:
                    self._process(letter, work, blocked, result)
        finally:
            work.release()
        found = {letter.key for letter in letters}
        for row in parked:
            if row.key in blocked or not self._held.rows or not self._covers(row.shard_id):
                continue
            if keys is None and row.key not in found:
                result.without_letters.add(row.key)
                continue
            self._unpark(row)
            result.unparked.add(row.key)
        return result

    def _process(
        self, letter: Letter, work: _Consumers, blocked: set[str], result: RedriveResult
    ) -> None:
        self._held.require()
        if letter.key not in blocked:
            error = work.process(letter)
            if error is None:
                self._box.remove([letter])
                result.processed += 1
                return
            blocked.add(letter.key)
            result.failed[letter.id] = f"{type(error).__name__}: {error}"
        result.waiting += 1

    def _read_parked(self) -> tuple[ParkedKey, ...]:
        some = next(iter(self._rows.values()))
        return self._table.read_parked_keys(some.app_name, some.stream_name, tuple(self._rows))

    def _covers(self, shard_id: str) -> bool:
        return holders_of([shard_id], self._rows) <= self._held.rows.keys()

    def _comes_again(self, letter: Letter, parked_keys: Container[str]) -> bool:
        row = self._rows.get(letter.shard_id)
        if row is not None and not is_acknowledged(letter, row.checkpoint):
            return True
        return letter.parked and letter.key not in parked_keys

    def _epoch_of(self, shard_id: str) -> int:
        """Return an epoch above all under which records of the shard were delivered.

        And not above those of the next owners: they hold the shards after this.
        """
        holders = holders_of([shard_id], self._rows) & self._held.rows.keys()
        if holders:
            return max(self._held.rows[holder].epoch for holder in holders)
        row = self._rows.get(shard_id)
        return 1 if row is None else row.epoch + 1

    def _unpark(self, row: ParkedKey) -> None:
        """Delete the key's rows in all shards; each lease that is held covers its own epoch."""
        self._held.require()
        for lease in self._held.rows.values():
            mine = replace(row, shard_id=lease.shard_id, epoch=lease.epoch)
            self._table.unpark_key(mine, self._held.owner)


def is_acknowledged(letter: Letter, checkpoint: Position) -> bool:
    """Return true if the checkpoint covers the letter's record: it is not delivered again."""
    match checkpoint:
        case ShardEnd():
            return True
        case After(sequence, None):
            return letter.place[0] <= int(sequence.text)
        case After(sequence, int(sub_sequence)):
            return letter.place <= (int(sequence.text), sub_sequence)
    return False


class _Consumers:
    """The consumers of the letters' shards, one object for each."""

    def __init__(
        self,
        make_consumer: Callable[[], ShardConsumer],
        epoch_of: Callable[[str], int],
        change_of: ChangeOf | None,
    ) -> None:
        self._make_consumer = make_consumer
        self._epoch_of = epoch_of
        self._change_of = change_of
        self._numbers = count(1)
        self._consumers: dict[str, ShardConsumer] = {}

    def process(self, letter: Letter) -> Exception | None:
        """Process one letter; return what the consumer raised."""
        records = records_of_letters([letter])
        try:
            consumer = self._consumer_of(letter.shard_id)
            fence = self._fence(letter.shard_id)
            batch = ShardBatch(letter.shard_id, fence, records, self._change_of)
            consumer.process(batch)
        except Exception as error:
            logger.warning("%s failed again: %s: %s", letter.id, type(error).__name__, error)
            return error
        return None

    def release(self) -> None:
        """Call `shard_released` of each consumer."""
        for shard_id, consumer in self._consumers.items():
            consumer.shard_released(shard_id)

    def _consumer_of(self, shard_id: str) -> ShardConsumer:
        consumer = self._consumers.get(shard_id)
        if consumer is None:
            consumer = self._make_consumer()
            consumer.shard_started(shard_id, self._fence(shard_id))
            self._consumers[shard_id] = consumer
        return consumer

    def _fence(self, shard_id: str) -> Fence:
        return Fence(self._epoch_of(shard_id), next(self._numbers))
