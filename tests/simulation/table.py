"""The lease table of the simulation: it lags on request, and its writes are judged."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from shardline.core.positions import After, AtTime, Position, ShardEnd
from tests.simulation.history import Checkpointed, Rewound
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from random import Random

    from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
    from shardline.leases.port import RowPage
    from tests.simulation.history import History
    from tests.simulation.stream import SimStream

Space = tuple[str, str]


class TableBroken(Exception):
    """The table came into a state that must never be."""


class SimTable(MemoryLeaseTable):
    """Watches every write that succeeds. Keeps old states for reads that lag."""

    def __init__(self, streams: dict[str, SimStream], history: History, random: Random) -> None:
        super().__init__()
        self._streams = streams
        self._history = history
        self._random = random
        self.lagging = False
        self._old_pages: dict[tuple[str, str, str | None], RowPage] = {}
        self._old_beats: dict[Space, tuple[Heartbeat, ...]] = {}
        self._highest_epoch: dict[tuple[str, str, str], int] = {}
        self._deleted: dict[tuple[str, str, str], LeaseRow] = {}
        self._last_owner: dict[str, str] = {}
        self.beats_deleted_at: list[float] = []
        """When somebody deleted the heartbeats of a stream."""
        self._begun: set[str] = set()
        """The streams on which the app has begun."""
        self.now: Callable[[], float] = lambda: 0.0
        self.on_steal: Callable[[LeaseRow, LeaseRow], None] = lambda *_: None
        """Called when a lease changes hands that was not released."""
        self.on_rewind: Callable[[LeaseRow], None] = lambda _: None
        """Called when a row that was deleted is made again with an earlier checkpoint."""
        self.on_gap: Callable[[LeaseRow], None] = lambda _: None
        """Called when a gap is written into a row."""
        self.taken_at: dict[tuple[str, str], float] = {}
        """When each shard was taken last."""
        self.created_at: dict[tuple[str, str, int], datetime] = {}
        """When the stream was created for which a row has its epoch: by stream, shard and epoch."""

    # --- reads that lag ---------------------------------------------------------------------

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        place = (app_name, stream_name, after)
        if self.lagging and place in self._old_pages and self._random.random() < 0.7:
            return self._old_pages[place]
        page = self._old_pages[place] = super().scan_rows(app_name, stream_name, after, limit)
        return page

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        space = (app_name, stream_name)
        if self.lagging and space in self._old_beats and self._random.random() < 0.7:
            return self._old_beats[space]
        beats = self._old_beats[space] = super().read_heartbeats(app_name, stream_name)
        return beats

    # --- writes that are watched ------------------------------------------------------------

    def create_header(self, header: Header, replaces: Header | None = None) -> None:
        super().create_header(header, replaces)
        stream, begins = self._streams[header.stream_name], header.stream_name not in self._begun
        if begins:
            stream.excuse_streams_before(header.stream_created_at)
        if replaces is None and isinstance(header.start, AtTime):
            # "Latest" was resolved within this second: the start is cut to it.
            stream.excuse_before(header.start.time + timedelta(seconds=1))
        elif begins:
            # Whoever begins at the horizon has lost nothing of what expired before.
            stream.excuse_all_expired()
        self._begun.add(header.stream_name)

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        key = (new.app_name, new.stream_name, new.shard_id)
        stored = self._rows.get(key[:2], {}).get(new.shard_id)
        super().swap_row(new, expected)
        highest = self._highest_epoch.get(key, 0)
        if new.epoch < highest:
            raise TableBroken(f"the epoch of {new.shard_id} fell from {highest} to {new.epoch}")
        self._highest_epoch[key] = new.epoch
        if new.lease_owner is not None:
            stream = self._streams[new.stream_name]
            self._last_owner[stream.named_at(new.shard_id, new.stream_created_at)] = new.lease_owner
        if new.epoch > highest:
            self.taken_at[key[1:]] = self.now()
            self.created_at[(*key[1:], new.epoch)] = new.stream_created_at
        if not self._streams[new.stream_name].has(new.stream_created_at):
            return  # a worker that has not noticed yet that the stream was made again
        if stored is None:
            self._made(key, new)
        elif stored.stream_created_at == new.stream_created_at:
            self._changed(stored, new)

    def _changed(self, old: LeaseRow, new: LeaseRow) -> None:
        if old.completed and not new.completed:
            raise TableBroken(f"{new.shard_id} was completed, and is not any more")
        taken = new.lease_owner not in (None, old.lease_owner)
        if taken and new.epoch <= old.epoch:
            raise TableBroken(f"{new.shard_id} was taken without a new epoch")
        if taken and old.lease_owner is not None:
            self.on_steal(old, new)
        if new.gap != old.gap:
            self.on_gap(new)
        if new.checkpoint != old.checkpoint:
            self._checkpointed(old, new)

    def _made(self, key: tuple[str, str, str], new: LeaseRow) -> None:
        """Judge a row that was deleted and is there again: at an earlier checkpoint?"""
        old = self._deleted.pop(key, None)
        if old is None or new.checkpoint == old.checkpoint:
            return
        if old.stream_created_at != new.stream_created_at:
            return
        before, after = _sequence(old.checkpoint), _sequence(new.checkpoint)
        if after is not None and (before is None or after < before):
            self.on_rewind(old)
            stream = self._streams[new.stream_name]
            self._history.add(Rewound(stream.named_at(new.shard_id, new.stream_created_at), after))
        else:
            self._checkpointed(old, new)

    def _checkpointed(self, old: LeaseRow, new: LeaseRow) -> None:
        """Record that the owner of a row moved its checkpoint.

        A shard that expired while nobody had it is ended by anybody, with its gap.
        """
        name = self._streams[old.stream_name].named_at(old.shard_id, old.stream_created_at)
        owner = old.lease_owner or ""
        if new.completed and new.gap:
            owner = owner or self._last_owner.get(name, "")
        self._history.add(Checkpointed(name, old.epoch, _sequence(new.checkpoint), owner))

    # --- what somebody does by hand ---------------------------------------------------------

    def delete_some_row(self, space: Space) -> None:
        """Delete one, unless it is all there is: without a trace of it, the app is another one."""
        rows = self._rows.get(space)
        if rows and (len(rows) > 1 or space in self._headers):
            shard_id = self._random.choice(sorted(rows))
            self._deleted[(*space, shard_id)] = rows.pop(shard_id)
            self._ids.pop(space, None)

    def delete_header(self, space: Space) -> None:
        """Delete it, unless it is all there is."""
        if self._rows.get(space):
            self._headers.pop(space, None)

    def delete_heartbeats(self, space: Space) -> None:
        self._heartbeats.get(space, {}).clear()
        self.beats_deleted_at.append(self.now())

    def rows_of(self, space: Space) -> dict[str, LeaseRow]:
        return self._rows.get(space, {})


def _sequence(position: Position) -> int | None:
    match position:
        case After(sequence):
            return int(sequence.text)
        case ShardEnd():
            return None
        case _:
            return 0
