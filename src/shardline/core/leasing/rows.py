"""The rows of a lease table as values, and the only ways in which a lease row may change.

Three kinds of rows. A **lease row** for each shard: who works on it, and how far it was done. A
**heartbeat row** for each worker: that it lives, how much it holds, what it asks for. A **header
row** for each app on a stream: which stream it was, where reading began, and a counter that
moves when the others should look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shardline.core.checkpoints import further
from shardline.core.positions import SHARD_END, TRIM_HORIZON, Position

if TYPE_CHECKING:
    from datetime import datetime

EPOCHS_PER_MOVE: Final = 10**6
"""A row is made with the epoch `moves` × this: above all that a lost self of it can have had."""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """One shard's lease, for one app. Its key is (app_name, stream_name, shard_id)."""

    app_name: str
    stream_name: str
    shard_id: str
    stream_created_at: datetime
    """Of the stream that this shard belongs to: a stream made again has the same shard ids."""
    parents: tuple[str, ...] = ()
    lease_owner: str | None = None
    """A worker's name with the UUID of its incarnation, or None: free to take."""
    lease_count: int = 0
    """Rises by one with every write: what a write is conditional on, with owner and epoch."""
    epoch: int = 0
    """Rises with every take, and never falls, even when a row was deleted and made again."""
    checkpoint: Position = TRIM_HORIZON
    """Where to go on. Everything before it was processed, or is not wanted."""
    as_of: datetime | None = None
    """The service's time at which nothing unread lay at or before the checkpoint."""
    completed: bool = False
    """Processed to its end, for good."""
    given_to: str | None = None
    """Whom the last owner released it for: others leave it to that worker for a while."""
    gap: str = ""
    """What was lost, in words; empty if nothing was."""
    unlisted_since: datetime | None = None
    """When a finished shard was first missed in the listing."""

    @property
    def begun(self) -> bool:
        """Say whether it was ever taken, which means that its ancestors were done by then."""
        return self.lease_count > 0 or self.completed

    @property
    def version(self) -> tuple[int, int]:
        """Order the states of one row: a read that lags never outranks what was seen before."""
        return (self.epoch, self.lease_count)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One worker's sign of life on one stream. Its key is (app_name, stream_name, worker)."""

    app_name: str
    stream_name: str
    worker: str
    count: int = 0
    """Moves with every renewal. It is not a time: watch it on your own clock."""
    held: int = 0
    """How many leases it holds."""
    capacity: int | None = None
    """The most leases that it wants, if it has a limit."""
    leaving: bool = False
    asks: tuple[str, ...] = ()
    """The shards that it asks their owners to hand over."""


@dataclass(frozen=True, slots=True)
class Header:
    """What all workers of an app on a stream share. Its key is (app_name, stream_name)."""

    app_name: str
    stream_name: str
    stream_created_at: datetime
    start: Position
    """Where the app began, resolved once: never `Latest`."""
    settled: bool = False
    """Whether every shard of the first listing has its row: later ones begin at their beginning."""
    moves: int = 1
    """Rises when leases were given back, or a shard was completed, or a worker came or went."""


def taken(row: LeaseRow, owner: str) -> LeaseRow:
    """Give the row to an owner, under the next epoch."""
    if row.completed:
        raise ValueError(f"{row.shard_id} is completed: nobody can take it")
    return replace(
        row,
        lease_owner=owner,
        epoch=row.epoch + 1,
        lease_count=row.lease_count + 1,
        given_to=None,
    )


def advanced(row: LeaseRow, position: Position, as_of: datetime | None = None) -> LeaseRow:
    """Move the checkpoint, never back. A completed row stays as it is."""
    if row.completed:
        return row
    checkpoint = further(row.checkpoint, position)
    if checkpoint == row.checkpoint and (as_of is None or as_of == row.as_of):
        return row
    return replace(
        row, checkpoint=checkpoint, as_of=as_of or row.as_of, lease_count=row.lease_count + 1
    )


def finished(row: LeaseRow, gap: str = "") -> LeaseRow:
    """Complete the row for good; its owner is done with it."""
    if row.completed:
        return row
    return replace(
        row,
        completed=True,
        checkpoint=SHARD_END,
        lease_owner=None,
        given_to=None,
        gap=gap or row.gap,
        lease_count=row.lease_count + 1,
    )


def released(row: LeaseRow, given_to: str | None = None) -> LeaseRow:
    """Let the row go, perhaps for somebody in particular."""
    return replace(row, lease_owner=None, given_to=given_to, lease_count=row.lease_count + 1)


def with_gap(row: LeaseRow, gap: str) -> LeaseRow:
    """Note what was lost, behind what was lost before."""
    if not gap or gap in row.gap:
        return row
    said = f"{row.gap}; {gap}" if row.gap else gap
    return replace(row, gap=said, lease_count=row.lease_count + 1)


def marked_unlisted(row: LeaseRow, since: datetime | None) -> LeaseRow:
    """Note since when a finished shard is no longer listed."""
    return replace(row, unlisted_since=since, lease_count=row.lease_count + 1)


def one_write(new: LeaseRow, old: LeaseRow) -> LeaseRow:
    """Count several changes that are written together as one write."""
    return replace(new, lease_count=old.lease_count + 1)


def worker_name(owner: str) -> str:
    """Return the worker's name in an owner: what its incarnations have in common."""
    return owner.rpartition("/")[0]
