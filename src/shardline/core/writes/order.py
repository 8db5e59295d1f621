"""Which records go into the next PutRecords call, so that each key keeps its order.

PutRecords takes some entries of a call and refuses others, and promises nothing about their order.
So a key has at most one entry in all calls that are under way together: the next one is sent when
the one before it was accepted. A refused entry holds back later ones of its key and no others. If a
call is repeated because its answer was lost, an entry may be written twice in a row, with nothing
of its key in between.

Entries go in, calls come out, answers go in. Nothing is dropped: an entry that a shard refuses for
too long is reported by `overdue`, and the caller fails.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from shardline.core.shards import hash_key_of
from shardline.core.writes.entries import MIB
from shardline.core.writes.quota import SPACING_RECORDS, ShardQuota, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shardline.core.shards import Shard
    from shardline.core.writes.entries import Entry
    from shardline.core.writes.shard_map import ShardMap

CALL_RECORDS: Final = 500
CALL_BYTES: Final = 5 * MIB
"""Kinesis takes 10 MiB a call, older servers 5. A larger entry has a call of its own."""
_LIST_SECONDS: Final = 5.0
"""A listing may be stale: the next one comes this much later, though answers contradict it."""
_PACKED_BYTES: Final = 16
"""What a user record takes in an aggregated record beside its data, at most."""


class EntryResult(Protocol):
    """What an answer says about one entry."""

    @property
    def shard_id(self) -> str | None:
        """The shard that took it."""

    @property
    def sequence_number(self) -> str | None:
        """Its sequence number; None if it was refused."""

    @property
    def error_code(self) -> str | None:
        """Why it was refused; None if it was accepted."""


class Lane:
    """The entries of one key that are not accepted yet, the oldest first."""

    __slots__ = ("by_key", "expected", "key", "refused_since", "taken", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiting: deque[Entry] = deque()
        self.taken = 0
        """How many of them the call under way has; more than one only if they are packed."""
        self.expected: _ShardLanes | None = None
        """The shard that should take the next entry; None if that is to be found out again."""
        self.by_key = False
        """True if that follows from the key: then it holds for every entry without a hash key."""
        self.refused_since: float | None = None

    def taken_entries(self) -> list[Entry]:
        """Return the entries that the call under way has."""
        if self.taken == 1:
            return [self.waiting[0]]
        return [self.waiting[place] for place in range(self.taken)]

    def taken_bytes(self) -> int:
        """Return the size of the entries that the call under way has."""
        if self.taken == 1:
            return self.waiting[0].size_bytes
        return sum(entry.size_bytes for entry in self.taken_entries())


class _ShardLanes:
    """The lanes of a shard that may be sent, in turn."""

    __slots__ = ("quota", "ready", "shard_id")

    def __init__(self, shard_id: str | None, quota: ShardQuota) -> None:
        self.shard_id = shard_id
        self.quota = quota
        self.ready: deque[Lane] = deque()


@dataclass(frozen=True, slots=True)
class Overdue:
    """An entry that was refused for too long."""

    key: str
    shard_id: str | None
    error_code: str
    seconds: float


@dataclass(slots=True)
class Written:
    """What was accepted so far."""

    records: int = 0
    calls: int = 0
    refused: int = 0
    """Entries that were refused, and put again."""
    last: dict[str, str] = field(default_factory=dict)
    """The last sequence number in each shard, as answered."""


class WriteOrder:
    """The records of one writer that are not accepted yet. `now` is seconds on any steady clock.

    Not for use by several threads at once; several calls may be under way.
    """

    def __init__(
        self,
        shards: ShardMap,
        *,
        give_up_seconds: float = 120.0,
        packed_bytes: int = 0,
        spread: float = 0.5,
    ) -> None:
        self._map = shards
        self._give_up_seconds = give_up_seconds
        self._packed_bytes = packed_bytes
        self._spread = spread
        self._lanes: dict[str, Lane] = {}
        self._shards: dict[str | None, _ShardLanes] = {}
        self._turns: deque[_ShardLanes] = deque()
        self.written = Written()
        self.backlog_records = 0
        self.backlog_bytes = 0
        self.needs_listing = not shards.listed
        """True if there is no listing, or an answer named another shard than it does."""
        self._listed_at = float("-inf")
        self.overdue: Overdue | None = None

    @property
    def is_empty(self) -> bool:
        """True if everything that was added is accepted."""
        return not self._lanes

    def add(self, entry: Entry) -> bool:
        """Take a record, after all others of its key. Return true if there is more to send now."""
        self.backlog_records += 1
        self.backlog_bytes += entry.size_bytes
        lane = self._lanes.get(entry.key)
        if lane is None:
            lane = self._lanes[entry.key] = Lane(entry.key)
            lane.waiting.append(entry)
            self._shard_of(lane).ready.append(lane)
            return True
        lane.waiting.append(entry)
        return False

    def listed(self, shards: Iterable[Shard], now: float) -> None:
        """Record a listing of the stream's shards."""
        self._map.update(shards)
        self.needs_listing = False
        self._listed_at = now
        ready = [lane for each in self._turns for lane in each.ready]
        self._shards.clear()
        self._turns.clear()
        for lane in self._lanes.values():
            lane.expected = None
        for lane in ready:
            self._shard_of(lane).ready.append(lane)

    def listing_failed(self) -> None:
        """Record that shards cannot be listed: refusals then slow down all keys of unknown ones."""
        self.needs_listing = False

    def next_call(self, now: float) -> list[Lane]:
        """Return the lanes whose taken entries make up the next call; empty if none may be sent."""
        call: list[Lane] = []
        room_records, room_bytes = CALL_RECORDS, CALL_BYTES
        for shard in self._turns:
            ready, quota = shard.ready, shard.quota
            if not ready or quota.opens_at() > now:
                continue
            while ready:
                lane = ready[0]
                size = self._take(lane)
                if not room_records or (call and size > room_bytes):
                    self._turns.rotate(-1)
                    return call
                if not quota.spend(size, now):
                    quota.close(size, now, _waiting(ready))
                    break
                ready.popleft()
                call.append(lane)
                room_records -= 1
                room_bytes -= size
        return call

    def wait_seconds(self, now: float) -> float | None:
        """Return when to ask for a call again; None if nothing is ready until an answer comes."""
        opens = [shard.quota.opens_at() for shard in self._turns if shard.ready]
        return max(0.0, min(opens) - now) if opens else None

    def answered(self, call: Sequence[Lane], results: Sequence[EntryResult], now: float) -> None:
        """Record the answer to a call."""
        written = self.written
        written.calls += 1
        tallies: dict[str | None, Tally] = {}
        for lane, result in zip(call, results, strict=True):
            shard_id = lane.expected.shard_id if lane.expected else None
            size = lane.taken_bytes()
            if result.sequence_number is None:
                shard_id = self._refused(lane, result.error_code or "refused", now)
                tallies.setdefault(shard_id, Tally()).refuse(size)
                continue
            tallies.setdefault(shard_id, Tally()).accept(size)
            self._accepted(lane)
            if result.shard_id is not None:
                written.last[result.shard_id] = result.sequence_number
                if shard_id is not None and shard_id != result.shard_id:
                    self.needs_listing |= now > self._listed_at + _LIST_SECONDS
        for shard_id in tallies.keys() & self._shards.keys():
            self._shards[shard_id].quota.answered(tallies[shard_id], now, self._spread)

    def _take(self, lane: Lane) -> int:
        """Take what goes into one entry of a call, and return its size."""
        waiting = lane.waiting
        head = waiting[0]
        lane.taken, size = 1, head.size_bytes
        if self._packed_bytes and len(waiting) > 1:
            size += _PACKED_BYTES
            for entry in waiting:
                if entry is head:
                    continue
                more = len(entry.data) + _PACKED_BYTES
                if size + more > self._packed_bytes or entry.hash_key != head.hash_key:
                    break
                lane.taken += 1
                size += more
        return size

    def _accepted(self, lane: Lane) -> None:
        lane.refused_since = None
        for _ in range(lane.taken):
            entry = lane.waiting.popleft()
            self.backlog_bytes -= entry.size_bytes
        self.backlog_records -= lane.taken
        self.written.records += lane.taken
        if lane.waiting:
            self._shard_of(lane).ready.append(lane)
        else:
            del self._lanes[lane.key]

    def _refused(self, lane: Lane, error_code: str, now: float) -> str | None:
        """Put a lane back to the front, and return the shard that refused it."""
        self.written.refused += 1
        if lane.refused_since is None:
            lane.refused_since = now
        shard = self._shard_of(lane)
        shard.ready.appendleft(lane)
        seconds = now - lane.refused_since
        if seconds > self._give_up_seconds:
            self.overdue = Overdue(lane.key, shard.shard_id, error_code, seconds)
        return shard.shard_id

    def _shard_of(self, lane: Lane) -> _ShardLanes:
        """Return the shard that takes the next entry of a lane, as far as is known."""
        explicit = lane.waiting[0].hash_key
        if explicit is None and lane.by_key and lane.expected is not None:
            return lane.expected
        shard_id = None
        if self._map.listed:
            number = hash_key_of(lane.key) if explicit is None else int(explicit)
            shard_id = self._map.shard_of(number)
        shard = self._shards.get(shard_id)
        if shard is None:
            quota = _unlimited() if shard_id is None else self._map.quota_of(shard_id)
            shard = self._shards[shard_id] = _ShardLanes(shard_id, quota)
            self._turns.append(shard)
        lane.expected, lane.by_key = shard, explicit is None
        return shard


def _waiting(lanes: Iterable[Lane]) -> int:
    """Return how many records wait in lanes, which all have some; at least enough if many do."""
    return sum(len(lane.waiting) for lane in islice(lanes, SPACING_RECORDS))


def _unlimited() -> ShardQuota:
    """Return the quota of all shards that are not known: none, but a pause after each refusal."""
    quota = ShardQuota()
    quota.share = float("inf")
    return quota
