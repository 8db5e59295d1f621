"""What `LeaseState.handle` takes: what was read, what became of writes, what the worker reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shardline.core.leasing.instructions import Instruction
    from shardline.core.leasing.own_heartbeat import Summary
    from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
    from shardline.core.leasing.runs import Run
    from shardline.core.positions import Position
    from shardline.core.shards import Shard

# --- what was read from the table ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeaderRead:
    """The header row, as last read or written."""

    header: Header
    skipped: frozenset[str] | None = None
    """The shards that were closed before a start at "latest"; None if that is not known here."""


@dataclass(frozen=True, slots=True)
class RowsScanned:
    """A page of rows from a read that may lag, between `after` and `next_after` if they are set."""

    rows: tuple[LeaseRow, ...]
    after: str | None = None
    next_after: str | None = None


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows from a consistent read: what was asked for and is not there does not exist."""

    asked: tuple[str, ...]
    rows: Mapping[str, LeaseRow]


@dataclass(frozen=True, slots=True)
class HeartbeatsRead:
    """All heartbeats, from a read that may lag."""

    beats: tuple[Heartbeat, ...]


@dataclass(frozen=True, slots=True)
class HeartbeatRead:
    """One suspect's heartbeat, from a consistent read."""

    worker: str
    beat: Heartbeat | None


@dataclass(frozen=True, slots=True)
class ParkedKeysRead:
    """The parked keys of a shard that was taken; inherited ones are among them."""

    shard_id: str
    epoch: int
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class RunRead:
    """The row of this worker's run."""

    run: Run | None


# --- what the service said ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamDescribed:
    """The stream as a whole. `service_time` is the service's clock when it answered."""

    created_at: datetime
    active: bool
    retention_seconds: float
    service_time: datetime


@dataclass(frozen=True, slots=True)
class ShardsListed:
    """A whole listing, asked for at `asked_at` on this worker's clock."""

    shards: tuple[Shard, ...]
    asked_at: float


@dataclass(frozen=True, slots=True)
class ChildrenListed:
    """The children of a shard that ended; none while the service does not list them yet."""

    shard_id: str
    children: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class ShardLookedUp:
    """The service's answer for one shard that a listing lacks."""

    shard_id: str
    found: bool


# --- what became of a write ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteDone:
    """A write succeeded. `sent_at` is when it was sent; a bump returns the header."""

    instruction: Instruction
    sent_at: float
    header: Header | None = None


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A write was refused because the table holds something else."""

    instruction: Instruction
    current: object


@dataclass(frozen=True, slots=True)
class WriteUnanswered:
    """It is not known whether a write happened."""

    instruction: Instruction


# --- what the worker reports --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A shard was processed up to a position."""

    shard_id: str
    epoch: int
    position: Position
    as_of: datetime | None = None
    lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GapNoted:
    """Records of a shard that goes on were lost."""

    shard_id: str
    epoch: int
    text: str


@dataclass(frozen=True, slots=True)
class ShardEnded:
    """A shard was processed to its end, durably. Believed when a later listing shows it closed."""

    shard_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class ShardFinished:
    """Nothing runs in a shard that was to be finished."""

    shard_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class ShardRestarted:
    """Work on a shard ended by itself: the lease is taken anew, and work starts again."""

    shard_id: str
    epoch: int
    counted: bool = True
    """False if it ended for no fault of this shard: it counts as no start without success."""


@dataclass(frozen=True, slots=True)
class ShardGivenUp:
    """Work on a shard hangs or fails: it is released, and not taken here for a while."""

    shard_id: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShardHalted:
    """A shard is to stand still until it is released by hand."""

    shard_id: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Summarized:
    """What this worker's next heartbeats report."""

    summary: Summary


@dataclass(frozen=True, slots=True)
class Leaving:
    """The worker stops: everything is released, nothing is taken."""


# --- it is time ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RenewalDue:
    """Return the heartbeat to write, if it is time."""


@dataclass(frozen=True, slots=True)
class RoundBegun:
    """A round of reading and deciding begins: what was read before may be out of date."""


@dataclass(frozen=True, slots=True)
class DecisionDue:
    """Return what to read or write now. `today` is a wall clock, for retention periods only."""

    today: datetime


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened but time: leases may have run out."""


Report = (
    Acknowledged | GapNoted | ShardEnded | ShardFinished | ShardRestarted | ShardGivenUp
    | ShardHalted
)  # fmt: skip
"""What a worker reports about one shard under one epoch."""

Event = (
    HeaderRead | RowsScanned | RowsRead | HeartbeatsRead | HeartbeatRead | ParkedKeysRead | RunRead
    | StreamDescribed | ShardsListed | ChildrenListed | ShardLookedUp
    | WriteDone | WriteRefused | WriteUnanswered
    | Report | Summarized | Leaving
    | RenewalDue | RoundBegun | DecisionDue | TimePassed
)  # fmt: skip
