"""What a planner is told, and what it asks for: plain values, so that a log of them replays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardline.core.planning.queries import Answer, Place, Query

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from shardline.core.gaps import Evidence, Gap
    from shardline.core.offsets import Offset
    from shardline.core.positions import Position
    from shardline.core.shards import Shard

# --- events -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """Spark asks for the batch after `committed`, which is committed by now."""

    committed: Offset
    max_records: int | None
    all_available: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """The last question of Spark, as the planner keeps it."""

    asked: Asked
    at: float
    again: bool
    """The same was asked before: Spark polls."""


@dataclass(frozen=True, slots=True)
class TargetSet:
    """The query ends when everything is delivered that has arrived by now."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A listing came."""

    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class Described:
    """A description of the stream came."""

    name: str
    arn: str
    created_at: datetime
    retention: timedelta
    service_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """The service told its time."""

    service_time: datetime


@dataclass(frozen=True, slots=True)
class Pinned:
    """The position "latest" was resolved to a place in one shard."""

    shard_id: str
    place: Place


@dataclass(frozen=True, slots=True)
class Bookmarked:
    """A LATEST iterator of a shard was opened and is kept."""

    shard_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A query was refused: the position is trimmed, or the shard is not found."""

    query: Query
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Checked:
    """The service was asked about one place, or one shard (`position` is None)."""

    shard_id: str
    position: Position | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class GapAccepted:
    """A batch of an earlier process lost records, and the user goes on."""

    gap: Gap


@dataclass(frozen=True, slots=True)
class Woken:
    """The time in `Planner.wake_at` has come."""


Event = (
    Asked | TargetSet | Listed | Described | Told | Answer | Pinned | Bookmarked | Refused
    | Checked | GapAccepted | Woken
)  # fmt: skip


# --- instructions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class List:
    """List all shards."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe the stream."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Resolve "latest" in one shard to a place that lasts."""

    shard_id: str


@dataclass(frozen=True, slots=True)
class Check:
    """Ask whether the record at a place is still kept; without a place, whether the shard is."""

    shard_id: str
    position: Position | None


@dataclass(frozen=True, slots=True)
class AskTime:
    """Learn the service's time, by an empty read in one shard."""

    shard_id: str


Instruction = List | Describe | AskTime | Pin | Check | Query
