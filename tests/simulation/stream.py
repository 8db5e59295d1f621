"""A twin of a Kinesis stream, and the truth about what was written to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from shardline.consumer.pipeline import _QUIET_SECONDS
from shardline.core.gaps import MARGIN
from shardline.core.promise import RecordRef
from shardline.core.shards import HASH_SPACE_END
from shardline.local.kinesis.resharding import merge_shards, split_shard
from shardline.local.kinesis.sequences import parse_sequence
from shardline.local.refusals import Refusal
from tests.simulation.clockwork import ServiceClock
from tests.simulation.fast_twin import FastTwin
from tests.simulation.history import Excused, ShardOpened, Wrote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import ShardLog
    from shardline.local.kinesis.streams import Stream
    from tests.simulation.clockwork import Clockwork
    from tests.simulation.history import History
    from tests.simulation.knobs import Knobs

_RETENTION = timedelta(hours=24)
_QUIET = timedelta(seconds=_QUIET_SECONDS)
_KEYS = 6
_MOST_OPEN_SHARDS = 8


class SimStream:
    """One stream that is written to, resharded, deleted and made again."""

    def __init__(
        self, name: str, clockwork: Clockwork, random: Random, history: History, shards: int
    ) -> None:
        self.name = name
        self._clock = ServiceClock(clockwork)
        self.most_back_ms = 0
        """By how much the stamp of a record may lie before that of an earlier one."""
        self._wanted_from: datetime | None = None
        """Since when an app that began at "latest" wants records, by their stamps."""
        self._parents: dict[str, tuple[str, ...]] = {}
        self._random = random
        self._history = history
        self._known: set[str] = set()
        self._written: list[tuple[str, int, datetime]] = []
        """Shard, number and arrival of every record."""
        self.twin = self._make_twin(shards)
        self._sync()

    def _make_twin(self, shards: int) -> Any:
        return FastTwin(shards, name=self.name, clock=self._clock)

    def configure(self, knobs: Knobs) -> None:
        """Set how the service behaves."""
        self.most_back_ms = knobs.most_back_ms
        account = self.twin.account
        account.settings.empty_page_every = knobs.empty_page_every
        account.settings.stale_listing_one_in = knobs.stale_listing_one_in
        account.settings.status_delay_ms = knobs.status_delay_ms
        account.limits.enabled = knobs.limited

    def newest(self) -> Any:
        """Return the stream as a worker opens it."""
        return self.twin

    def has(self, created_at: datetime) -> bool:
        """Return true if a stream that was created then can be read."""
        return created_at == self.created_at

    @property
    def state(self) -> Stream | None:
        """The stream itself; None while it is deleted."""
        try:
            stream: Stream = self.twin._stream()
        except Refusal:
            return None
        return stream

    @property
    def created_at(self) -> datetime | None:
        state = self.state
        return datetime.fromtimestamp(state.created_ms / 1000, UTC) if state else None

    def named(self, shard_id: str, created_ms: int) -> str:
        """Name a shard for the checkers, which see all streams and incarnations at once."""
        return f"{self.name}@{created_ms % 1_000_000_000}.{shard_id}"

    def named_at(self, shard_id: str, created_at: datetime) -> str:
        return self.named(shard_id, round(created_at.timestamp() * 1000))

    def ref(self, key: str, sequence: str, shard_id: str) -> tuple[int, RecordRef]:  # noqa: ARG002
        """Return in which incarnation a record was written, and what checkers call it."""
        parts = parse_sequence(sequence)
        if parts is None:
            raise AssertionError(f"not a sequence number: {sequence}")
        return parts.created_ms, RecordRef(f"{key}@{parts.created_ms}", int(sequence))

    # --- what happens to it -----------------------------------------------------------------

    def put(self) -> None:
        state = self.state
        if state is None or not state.shards or state.status == "DELETING":
            return
        self._sync()
        key = self._random.randrange(_KEYS)
        hash_key = (2 * key + 1) * (HASH_SPACE_END + 1) // (2 * _KEYS)
        partition_key = f"{self.name}.k{key}"
        self._clock.back_ms = self._random.randrange(self.most_back_ms + 1)
        written = self.twin.put(partition_key, b"x" * self._random.randrange(40), hash_key=hash_key)
        created_ms, ref = self.ref(partition_key, written.sequence.text, written.shard_id)
        shard = self.named(written.shard_id, created_ms)
        self._history.add(Wrote(shard, ref))
        stamp = self._clock.now()
        self._written.append((shard, ref.sequence, stamp))
        self._clock.back_ms = 0
        if self._wanted_from is not None and stamp < self._wanted_from:
            self._history.add(Excused(shard, after=ref.sequence - 1, before=ref.sequence + 1))

    def split(self) -> None:
        state = self.state
        if state is not None and state.open_shards and len(state.open_shards) < _MOST_OPEN_SHARDS:
            shard = self._random.choice(state.open_shards)
            middle = (shard.hash_range.start + shard.hash_range.end + 1) // 2
            request = {"ShardToSplit": shard.id, "NewStartingHashKey": str(middle)}
            self._change(split_shard, request)

    def merge(self) -> None:
        state = self.state
        if state is not None and len(state.open_shards) > 1:
            place = self._random.randrange(len(state.open_shards) - 1)
            left, right = state.open_shards[place : place + 2]
            request = {"ShardToMerge": left.id, "AdjacentShardToMerge": right.id}
            self._change(merge_shards, request)

    def _change(
        self, change: Callable[[Account, dict[str, Any], int], None], request: dict[str, str]
    ) -> None:
        twin = self.twin
        try:
            change(twin.account, {"StreamName": self.name, **request}, twin.clock.now_ms())
        except Refusal:
            return  # another change is under way
        self._sync()

    def delete(self) -> None:
        """Delete the stream: what was not delivered is lost, and nobody's fault."""
        state = self.state
        if state is not None:
            self._sync()
            for shard in state.shards:
                self._history.add(Excused(self.named(shard.id, state.created_ms)))
            self.twin.account.delete(state, self._clock.now_ms())

    def create(self) -> None:
        """Make the stream again under its name, with the same shard ids."""
        if self.state is None:
            self.twin.account.create(self.name, "PROVISIONED", 2, self._clock.now_ms())
            self._sync()

    def excuse_before(self, time: datetime) -> None:
        """Excuse what arrived before a time at which the app began: it is not wanted."""
        self._wanted_from = time
        first_wanted: dict[str, int] = {}
        for shard, sequence, arrived in self._written:
            if arrived >= time:
                first_wanted.setdefault(shard, sequence)
        for shard in dict.fromkeys(shard for shard, _, _ in self._written):
            self._history.add(Excused(shard, before=first_wanted.get(shard)))
        for shard, sequence, arrived in self._written:
            if arrived < time and sequence > first_wanted.get(shard, sequence):
                self._history.add(Excused(shard, after=sequence - 1, before=sequence + 1))

    def excuse_streams_before(self, created_at: datetime) -> None:
        """Excuse streams that were replaced before the app began: it begins with a newer one."""
        first = self.named_at("", created_at).partition("@")[2]
        for shard in dict.fromkeys(shard for shard, _, _ in self._written):
            if int(shard.partition("@")[2].partition(".")[0]) < int(first.partition(".")[0]):
                self._history.add(Excused(shard))

    def excuse_all_expired(self) -> None:
        """Excuse what expired before the app began."""
        for shard in list(self._parents):
            self.excuse_expired(shard)

    def excuse_expired(self, shard: str) -> None:
        """Excuse what expired in a shard for which a gap is on record, and in its ancestors."""
        self._excuse_expired_in(self._with_ancestors(shard))

    def _excuse_expired_in(self, shards: set[str]) -> None:
        until = self._clock.now() - _RETENTION + MARGIN
        for name in shards:
            kept = (n for s, n, arrived in self._written if s == name and arrived > until)
            self._history.add(Excused(name, before=next(kept, None)))

    def excuse_unowned(self, shard_ids: list[str], with_rows: Iterable[str]) -> None:
        """Excuse shards for which no worker has room, and their descendants: they stay unread.

        So do ancestors without a row, which came and went while nobody looked: that they have
        expired is found by who begins the shard.
        """
        created_at = self.created_at
        if created_at is None:
            return
        unowned = {self.named_at(shard_id, created_at) for shard_id in shard_ids}
        for name in self._parents:
            if unowned & self._with_ancestors(name):
                self._history.add(Excused(name))
        ancestors = set().union(*map(self._with_ancestors, unowned))
        self._excuse_expired_in(ancestors - {self.named_at(i, created_at) for i in with_rows})

    def anything_expired(self, shard: str) -> bool:
        """Return true if a record of a shard or of its ancestors may have expired.

        Also if nobody can know: the shard was read before the horizon, and not since.
        """
        until, names = self._clock.now() - _RETENTION + MARGIN, self._with_ancestors(shard)
        expired = any(s in names and arrived <= until for s, _, arrived in self._written)
        return expired or self._known_since(shard) <= until

    def _known_since(self, shard: str) -> datetime:
        """Return up to when a worker must know, after a restart, that a shard had no records.

        A worker writes down now and then that a shard is quiet, and a child is as old as its
        parents were when they were read last.
        """
        created_at = self.created_at or self._clock.now()
        read_until: datetime | None = self.twin.read_until.get(shard.rpartition(".")[2])
        if read_until is not None:
            return max(created_at, read_until - _QUIET)
        return min(map(self._known_since, self._parents.get(shard, ())), default=created_at)

    def _with_ancestors(self, shard: str) -> set[str]:
        found, frontier = set[str](), [shard]
        while frontier:
            name = frontier.pop()
            if name not in found:
                found.add(name)
                frontier.extend(self._parents.get(name, ()))
        return found

    def make_listings_stale(self, reshards: int, *, lookups: bool) -> None:
        """Let listings lack the last reshards, and lookups too if they are to."""
        self.twin.account.faults.add("stale-listing", times=None, reshards=reshards)
        self.twin.stale_lookups = lookups

    def show_parents_open(self) -> None:
        self.twin.account.faults.add("open-parent", times=None)

    def end_open_parents(self) -> None:
        self.twin.account.faults.clear()

    def end_stale_listings(self) -> None:
        self.twin.account.faults.clear()
        self.twin.stale_lookups = False

    def heal(self) -> None:
        self.create()
        self.end_stale_listings()
        self.twin.account.settings.stale_listing_one_in = 0
        self._sync()

    def _sync(self) -> None:
        """Record shards that appeared: a change takes effect after a while."""
        state = self.state
        for shard in state.shards if state else ():
            name = self.named(shard.id, state.created_ms) if state else ""
            if name not in self._known:
                self._known.add(name)
                parents = tuple(self.named(p.id, state.created_ms) for p in shard.parents if state)
                self._parents[name] = parents
                self._history.add(ShardOpened(name, parents))

    def last_number(self, shard: ShardLog) -> int | None:
        """Return the number of the last record of a shard; None if it has none."""
        return int(shard.number(shard._ticks[-1])) if shard._ticks else None
