"""The streams of a simulated DynamoDB table: one after the other, as it is switched off and on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shardline.core.promise import RecordRef
from shardline.core.shards import Shard
from shardline.errors import StreamNotFound
from shardline.local.dynamodb_streams.control import Tables
from shardline.local.dynamodb_streams.iterators import shard_of_iterator
from tests.simulation.history import ShardOpened, Wrote
from tests.simulation.stream import _KEYS, _MOST_OPEN_SHARDS, SimStream
from tests.twins.dynamodb_streams import DynamoDBTwin

if TYPE_CHECKING:
    from shardline.local.dynamodb_streams.state import StoredShard, StoredStream
    from shardline.services.port import Page, StreamDescription
    from tests.simulation.knobs import Knobs


class TableTwin(DynamoDBTwin):
    """One of the streams of a table; a listing may lack what was opened last."""

    def __init__(self, stream: SimTableStream, arn: str) -> None:
        self._tables = stream.tables
        self._clock = stream.tables.clock
        self._arn = arn
        self._table = stream
        self.read_until: dict[str, datetime] = {}
        """Empty: no world of a table has a pause of hours."""

    def describe(self) -> StreamDescription:
        if not self._arn:
            raise StreamNotFound("no stream of the table was created since")
        return super().describe()

    def list_shards(self) -> tuple[Shard, ...]:
        stream = self._stream(self._clock.now_ms())
        hidden = self._table.hidden_reshards()
        seen = stream.reshards - hidden
        listed = super().list_shards()
        if not hidden:
            return listed
        stored = stream.shards
        return tuple(
            shard if (stored[shard.id].closed_by or 0) <= seen else _open(shard)
            for shard in listed
            if stored[shard.id].opened_by <= seen
        )

    def has_shard(self, shard_id: str) -> bool:
        if self._table.stale_lookups:
            return any(shard.id == shard_id for shard in self.list_shards())
        return any(shard.id == shard_id for shard in super().list_shards())

    def read(self, iterator: str, max_records: int) -> Page:
        self.empty_page_every = self._table.empty_page_every
        return super().read(iterator, max_records)

    def shard_of(self, iterator: str) -> str:
        return shard_of_iterator(iterator) or ""


@dataclass(frozen=True, slots=True)
class _ShardState:
    id: str
    closed: int | None
    stored: StoredShard


@dataclass(frozen=True, slots=True)
class _TableState:
    """The newest stream of the table, as far as the judge asks for it."""

    created_ms: int
    shards: list[_ShardState]

    @property
    def open_shards(self) -> list[_ShardState]:
        return [shard for shard in self.shards if shard.closed is None]

    def listed_shards(self) -> list[_ShardState]:
        return self.shards

    def find_shard(self, shard_id: str) -> _ShardState:
        return next(shard for shard in self.shards if shard.id == shard_id)


class SimTableStream(SimStream):
    """A table whose shards roll and split, and whose streaming is switched off and on.

    What is written while it is off is in no stream, so nothing is written then. The shards of a
    stream are the parents of the next one's: it is read after them.
    """

    tables: Tables

    def _make_twin(self, shards: int) -> Any:
        self.tables = Tables(self._clock)
        self.stale_lookups = False
        self.empty_page_every = 0
        self._hidden = 0
        self._hidden_one_in = 0
        self._numbered: dict[str, int] = {}
        """When the stream of each shard was created, in milliseconds."""
        self._leaves: tuple[str, ...] = ()
        """The last shards of the stream before."""
        self.tables.create_table(self._table, shards=shards)
        return self.newest()

    def configure(self, knobs: Knobs) -> None:
        self.empty_page_every = knobs.empty_page_every
        self._hidden_one_in = knobs.stale_listing_one_in

    @property
    def _table(self) -> str:
        return f"table-{self.name}"

    @property
    def _newest(self) -> StoredStream:
        return self.tables.find_stream(self._table, self._clock.now_ms())

    @property
    def state(self) -> Any:
        """The newest stream; None while streaming is switched off."""
        stream = self._newest
        if stream.disabled_ms is not None:
            return None
        shards = [_ShardState(s.id, s.closed_ms, s) for s in stream.shards.values()]
        return _TableState(stream.created_ms, shards)

    # --- for workers ------------------------------------------------------------------------

    def newest(self) -> TableTwin:
        return TableTwin(self, self._newest.arn)

    def open_from(self, created_from: datetime) -> TableTwin:
        """Return the first stream that was created then or later."""
        for stream in self.tables.find_streams(self._table, self._clock.now_ms()):
            if _created_at(stream) >= created_from:
                return TableTwin(self, stream.arn)
        return TableTwin(self, "")

    def has(self, created_at: datetime) -> bool:
        streams = self.tables.find_streams(self._table, self._clock.now_ms())
        return any(_created_at(stream) == created_at for stream in streams)

    def ref(self, key: str, sequence: str, shard_id: str) -> tuple[int, RecordRef]:
        created_ms = self._numbered[shard_id]
        return created_ms, RecordRef(f"{key}@{created_ms}", int(sequence))

    # --- what happens to it -----------------------------------------------------------------

    def put(self) -> None:
        if self.state is None:
            return
        key = f"{self.name}.k{self._random.randrange(_KEYS)}"
        written = self.tables.put_change(self._table, {"id": {"S": key}}, new={"id": {"S": key}})
        created_ms, ref = self.ref(key, written.sequence_number, written.shard)
        shard = self.named(written.shard, created_ms)
        self._history.add(Wrote(shard, ref))
        self._written.append((shard, ref.sequence, self._clock.now()))

    def split(self) -> None:
        state = self.state
        if state is not None and len(state.open_shards) < _MOST_OPEN_SHARDS:
            self.tables.split(self._table, self._random.choice(state.open_shards).id)
            self._sync()

    def merge(self) -> None:
        """Let a shard roll: shards of a table are never merged."""
        state = self.state
        if state is not None:
            self.tables.roll(self._table, self._random.choice(state.open_shards).id)
            self._sync()

    def delete(self) -> None:
        """Switch streaming off: all shards are closed, and stay readable for a day."""
        if self.state is not None:
            self.tables.disable_stream(self._table)

    def create(self) -> None:
        """Switch streaming on: a new stream with an ARN and shards of its own."""
        if self.state is None:
            stream = self._newest
            parents = {shard.parent for shard in stream.shards.values()}
            self._leaves = tuple(
                self.named(i, stream.created_ms) for i in stream.shards if i not in parents
            )
            self.tables.create_table(self._table, shards=2)
            self._sync()

    def make_listings_stale(self, reshards: int, *, lookups: bool) -> None:
        self._hidden, self.stale_lookups = reshards, lookups

    def show_parents_open(self) -> None:
        """No-op: a table's listing that shows a parent open lacks its children."""

    def end_open_parents(self) -> None:
        """No-op: see above."""

    def hidden_reshards(self) -> int:
        if self._hidden_one_in and self._random.randrange(self._hidden_one_in) == 0:
            return max(1, self._hidden)
        return self._hidden

    def end_stale_listings(self) -> None:
        self._hidden, self.stale_lookups = 0, False

    def heal(self) -> None:
        self.create()
        self.end_stale_listings()
        self._hidden_one_in = 0

    def last_number(self, shard: Any) -> int | None:
        changes = shard.stored.changes
        return changes[-1].number if changes else None

    def _sync(self) -> None:
        stream = self._newest
        for shard in stream.shards.values():
            if shard.id not in self._numbered:
                self._numbered[shard.id] = stream.created_ms
                name = self.named(shard.id, stream.created_ms)
                parents = self._leaves
                if shard.parent is not None:
                    parents = (self.named(shard.parent, stream.created_ms),)
                self._parents[name] = parents
                self._history.add(ShardOpened(name, parents))


def _created_at(stream: StoredStream) -> datetime:
    return datetime.fromtimestamp(stream.created_ms / 1000, UTC)


def _open(shard: Shard) -> Shard:
    return Shard(shard.id, shard.parents, first=shard.first)
