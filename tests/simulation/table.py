"""The lease table of the simulation: it lags on request, and tells the checker the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.positions import After, Position, ShardEnd
from shardline.core.promise import _ACKNOWLEDGED, _DELIVERED
from shardline.leases.memory import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
    from shardline.leases.port import RowPage
    from tests.simulation.stream import SimStream


class TableBroken(Exception):
    """The table came into a state that must never be."""


class SimTable(MemoryLeaseTable):
    """Watches every write that succeeds. Keeps old states for reads that lag."""

    def __init__(self, streams: dict[str, SimStream], random: Random) -> None:
        super().__init__()
        self._streams = streams
        self._random = random
        self.lagging = False
        self._old_pages: dict[tuple[str, str], RowPage] = {}
        self._old_beats: dict[tuple[str, str], tuple[Heartbeat, ...]] = {}
        self._highest_epoch: dict[tuple[str, str, str], int] = {}
        self._deleted: dict[tuple[str, str, str], LeaseRow] = {}
        self.now: Callable[[], float] = lambda: 0.0
        self.on_steal: Callable[[LeaseRow, LeaseRow], None] = lambda *_: None
        """Called when a lease changes hands that was not released."""
        self.on_rewind: Callable[[LeaseRow], None] = lambda _: None
        """Called when a row that was deleted is made again with an earlier checkpoint."""
        self.taken_at: dict[tuple[str, str], tuple[int, float]] = {}
        """Each shard's epoch, and since when."""

    # --- reads that lag ---------------------------------------------------------------------

    def scan_rows(self, app_name: str, stream_name: str, after: str | None, limit: int) -> RowPage:
        space = (app_name, stream_name)
        if self.lagging and space in self._old_pages and self._random.random() < 0.7:
            return self._old_pages[space]
        page = super().scan_rows(app_name, stream_name, after, limit)
        self._old_pages[space] = page
        return page

    def read_heartbeats(self, app_name: str, stream_name: str) -> tuple[Heartbeat, ...]:
        space = (app_name, stream_name)
        if self.lagging and space in self._old_beats and self._random.random() < 0.7:
            return self._old_beats[space]
        beats = super().read_heartbeats(app_name, stream_name)
        self._old_beats[space] = beats
        return beats

    # --- writes that are watched ------------------------------------------------------------

    def swap_row(self, new: LeaseRow, expected: LeaseRow | None) -> None:
        key = (new.app_name, new.stream_name, new.shard_id)
        stored = self._rows.get(key[:2], {}).get(new.shard_id)
        super().swap_row(new, expected)
        stream = self._streams[new.stream_name]
        highest = self._highest_epoch.get(key, 0)
        if new.epoch < highest:
            raise TableBroken(f"the epoch of {new.shard_id} fell from {highest} to {new.epoch}")
        self._highest_epoch[key] = new.epoch
        if new.epoch > highest:
            self.taken_at[key[1:]] = (new.epoch, self.now())
        if new.stream_created_at != stream.created_at:
            return  # a worker that has not noticed yet that the stream was made again
        if stored is None:
            self._made(key, new)
        elif stored.stream_created_at == new.stream_created_at:
            self._changed(stored, new)

    def _changed(self, old: LeaseRow, new: LeaseRow) -> None:
        stream = self._streams[new.stream_name]
        if old.completed and not new.completed:
            raise TableBroken(f"{new.shard_id} was completed, and is not any more")
        taken = new.lease_owner not in (None, old.lease_owner)
        if taken and new.epoch <= old.epoch:
            raise TableBroken(f"{new.shard_id} was taken without a new epoch")
        if taken and old.lease_owner is not None:
            self.on_steal(old, new)
        if new.gap and not old.gap:
            return
        if new.checkpoint != old.checkpoint:
            stream.checker.checkpointed(
                stream.named(new.shard_id),
                old.epoch,
                _sequence(new.checkpoint),
                old.lease_owner or "",
            )

    def _made(self, key: tuple[str, str, str], new: LeaseRow) -> None:
        """A row that was deleted may go on earlier, if the one who held it is gone: say so."""
        old = self._deleted.pop(key, None)
        if old is None or new.checkpoint == old.checkpoint:
            return
        if old.stream_created_at != new.stream_created_at:
            return
        stream = self._streams[new.stream_name]
        before, after = _sequence(old.checkpoint), _sequence(new.checkpoint)
        if after is not None and (before is None or after < before):
            self.on_rewind(old)
            rewind(stream, new.shard_id, after)
        else:
            stream.checker.checkpointed(
                stream.named(new.shard_id), old.epoch, after, old.lease_owner or ""
            )

    # --- what somebody does by hand ---------------------------------------------------------

    def delete_some_row(self, space: tuple[str, str]) -> str:
        rows = self._rows.get(space)
        if not rows:
            return ""
        shard_id = self._random.choice(sorted(rows))
        self._deleted[(*space, shard_id)] = rows.pop(shard_id)
        self._ids.pop(space, None)
        return shard_id

    def delete_header(self, space: tuple[str, str]) -> None:
        self._headers.pop(space, None)

    def rows_of(self, space: tuple[str, str]) -> dict[str, LeaseRow]:
        return self._rows.get(space, {})

    def header_of(self, space: tuple[str, str]) -> Header | None:
        return self._headers.get(space)


def rewind(stream: SimStream, shard_id: str, after: int) -> None:
    """Excuse the repeats behind a checkpoint that was lost with its row and its holder."""
    checker = stream.checker
    history = checker._shards[stream.named(shard_id)]
    history.checkpoint = (after, 0)
    history.acknowledged = 0
    for sequence, _, key, index in history.records:
        passed = checker._keys[key].passed
        if sequence <= after:
            history.acknowledged += 1
        elif passed[index] is _ACKNOWLEDGED:
            passed[index] = _DELIVERED


def _sequence(position: Position) -> int | None:
    match position:
        case After(sequence):
            return int(sequence)
        case ShardEnd():
            return None
        case _:
            return 0
