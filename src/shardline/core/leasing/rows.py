"""The rows of a lease table as values, and the only ways in which a lease row may change.

A **lease row** for each shard: its owner, and how far it was processed. A **heartbeat row** for
each worker: that it lives, what it does, what it asks for. A **header row** for each app on a
stream: which stream it was, where reading began, and a counter that moves when workers should
read again. Rows of runs and of parked keys are in `runs` and `parked_keys`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from shardline.core.checkpoints import further
from shardline.core.positions import SHARD_END, TRIM_HORIZON, Position

EPOCHS_PER_MOVE: Final = 10**6
"""A row is created with the epoch `moves` times this: above every epoch of an earlier such row."""


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
    """The name of a worker, unique for each of its attempts; None if the lease is free."""
    lease_count: int = 0
    """Rises by one with every write: what a write is conditional on, with owner and epoch."""
    epoch: int = 0
    """Rises with every take, and never falls, even if the row was deleted and created again."""
    checkpoint: Position = TRIM_HORIZON
    """Where to go on. Everything before it was processed, or is not wanted."""
    as_of: datetime | None = None
    """No unprocessed record of the shard arrived before this service time."""
    completed: bool = False
    """Processed to its end, for good."""
    given_to: str | None = None
    """Whom the last owner released it for: others leave it to that worker for a while."""
    gap: str = ""
    """What was lost, in words; empty if nothing was."""
    unlisted_since: datetime | None = None
    """When a completed shard was first missing from the listing."""
    starts: int = 0
    """How often work began at this checkpoint and ended without an acknowledgement."""
    halted: str = ""
    """Why nobody may take the lease until it is released by hand; empty if it may be taken."""
    lag_ms: int | None = None
    """How far the shard lagged behind its tip at the last checkpoint, if the owner said so."""

    @property
    def begun(self) -> bool:
        """True if it was ever taken, which means that its ancestors were completed by then."""
        return self.lease_count > 0 or self.completed

    @property
    def version(self) -> tuple[int, int]:
        """Orders the states of one row: a read that lags never outranks what was read before."""
        return (self.epoch, self.lease_count)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One worker's sign of life on one stream. Its key is (app_name, stream_name, worker)."""

    app_name: str
    stream_name: str
    worker: str
    count: int = 0
    """Moves with every renewal. It is not a time: observe it on a clock of your own."""
    held: int = 0
    """How many leases it holds."""
    capacity: int | None = None
    """The most leases that it wants, if it has a limit."""
    leaving: bool = False
    asks: tuple[str, ...] = ()
    """The shards that it asks their owners to hand over; a limited number at a time."""
    lag_ms: int | None = None
    """The longest lag of its shards, if known."""
    records_per_second: int = 0
    bytes_per_second: int = 0
    retries: int = 0
    """Deliveries that were tried again since it started."""
    dead_letters: int = 0
    """Records that it wrote to the dead letters since it started."""


@dataclass(frozen=True, slots=True)
class Header:
    """What all workers of an app on a stream share. Its key is (app_name, stream_name)."""

    app_name: str
    stream_name: str
    stream_created_at: datetime
    start: Position
    """Where the app began, resolved once: never `Latest`."""
    settled: bool = False
    """True when every shard of the first listing has its row: later ones begin at their start."""
    moves: int = 1
    """Rises when leases were released, a shard was completed, or a worker came or went."""
    latest: bool = False
    """True if the app began at "latest", which `start` has as a time: closed shards are skipped."""
    began_at: datetime | None = None
    """The service's time when the app began: what expires later is missed, whenever its row is
    created. None in rows of an earlier release."""


def taken(
    row: LeaseRow,
    owner: str,
    above: int = 0,
    *,
    as_of: datetime | None = None,
    counted: int | None = None,
) -> LeaseRow:
    """Return the row with a new owner, under an epoch above its own and above `above`.

    `above` is the last epoch of its parents, so that a child outranks their former owners. A take
    counts as a start without an acknowledgement until one comes; `counted` sets the number.
    """
    if row.completed:
        raise ValueError(f"{row.shard_id} is completed: nobody can take it")
    if row.halted:
        raise ValueError(f"{row.shard_id} is halted: release it by hand first")
    return replace(
        row,
        lease_owner=owner,
        epoch=max(row.epoch, above) + 1,
        lease_count=row.lease_count + 1,
        given_to=None,
        starts=row.starts + 1 if counted is None else counted,
        as_of=as_of or row.as_of,
    )


def advanced(
    row: LeaseRow, position: Position, as_of: datetime | None = None, lag_ms: int | None = None
) -> LeaseRow:
    """Return the row with its checkpoint moved, never back. A completed row stays as it is."""
    if row.completed:
        return row
    checkpoint = further(row.checkpoint, position)
    if checkpoint == row.checkpoint and (as_of is None or as_of == row.as_of):
        return row
    return replace(
        row,
        checkpoint=checkpoint,
        as_of=as_of or row.as_of,
        lag_ms=lag_ms,
        starts=0,
        lease_count=row.lease_count + 1,
    )


def finished(row: LeaseRow, gap: str = "", as_of: datetime | None = None) -> LeaseRow:
    """Return the row completed for good, without an owner."""
    if row.completed:
        return row
    return replace(
        row,
        completed=True,
        checkpoint=SHARD_END,
        lease_owner=None,
        given_to=None,
        gap=gap or row.gap,
        starts=0,
        halted="",
        lag_ms=None,
        as_of=as_of or row.as_of,
        lease_count=row.lease_count + 1,
    )


def released(row: LeaseRow, given_to: str | None = None) -> LeaseRow:
    """Return the row without an owner, for `given_to` first: work on it ended in order."""
    return replace(
        row, lease_owner=None, given_to=given_to, starts=0, lease_count=row.lease_count + 1
    )


def abandoned(row: LeaseRow) -> LeaseRow:
    """Return the row without an owner after work that failed: its unacknowledged starts count."""
    return replace(row, lease_owner=None, given_to=None, lease_count=row.lease_count + 1)


def halted(row: LeaseRow, reason: str) -> LeaseRow:
    """Return the row without an owner and with a reason for which nobody may take it."""
    return replace(
        row, lease_owner=None, given_to=None, halted=reason, lease_count=row.lease_count + 1
    )


def released_by_hand(row: LeaseRow) -> LeaseRow:
    """Return the row free to take, whatever held or halted it."""
    return replace(released(row), halted="")


def with_gap(row: LeaseRow, gap: str) -> LeaseRow:
    """Return the row with what was lost, after what was lost before."""
    if not gap or gap in row.gap:
        return row
    text = f"{row.gap}; {gap}" if row.gap else gap
    return replace(row, gap=text, lease_count=row.lease_count + 1)


def marked_unlisted(row: LeaseRow, since: datetime | None) -> LeaseRow:
    """Return the row with the time since when a completed shard is not listed."""
    return replace(row, unlisted_since=since, lease_count=row.lease_count + 1)


def one_write(new: LeaseRow, old: LeaseRow) -> LeaseRow:
    """Return `new` with several changes that are written together counted as one write."""
    return replace(new, lease_count=old.lease_count + 1)


def worker_name(owner: str) -> str:
    """Return the part of an owner that its attempts have in common."""
    return owner.rpartition("/")[0]
