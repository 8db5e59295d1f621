"""What the dashboard shows of a stream at one moment, as frozen values that become JSON.

Times are seconds since 1970: the page draws with numbers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardline.core.promise import Verdict


class EventKind(StrEnum):
    """The kinds of events. The page shows each with a sign of its own."""

    SPLIT = "split"
    MERGED = "merged"
    CONTINUED = "continued"
    CLOSED = "closed"
    TAKEN = "taken"
    HANDED_OVER = "handed over"
    RELEASED = "released"
    DRAINED = "drained"
    JOINED = "joined"
    LEFT = "left"
    SILENT = "silent"
    GAP = "gap"
    HALTED = "halted"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Tenure:
    """The owner of a shard from a moment on; None means that nobody owned it."""

    owner: str | None
    epoch: int
    since: float


@dataclass(frozen=True, slots=True)
class Read:
    """What one worker read: records that arrived after the previous read and up to this time.

    An owner of None means: read before observation began.
    """

    owner: str | None
    upto: float


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard. What is not known is None."""

    id: str
    parents: tuple[str, ...]
    closed: bool
    state: str
    """Of `core.lineage.State`, or "halted"; without an application "open" or "closed"."""
    waits_for: tuple[str, ...] = ()
    hash_start: float | None = None
    hash_end: float | None = None
    """The hash range as fractions of the whole hash space, from 0 to 1."""
    opened_at: float | None = None
    closed_at: float | None = None
    owner: str | None = None
    epoch: int | None = None
    checkpoint: str | None = None
    halted: str = ""
    """Why no worker takes the shard until its lease is released by hand; empty if one may."""
    lag_seconds: float | None = None
    records_per_second: float | None = None
    tenures: tuple[Tenure, ...] = ()
    """Since observation began, oldest first."""
    reads: tuple[Read, ...] = ()
    """Oldest first; what arrived after the last one is unread."""

    @property
    def share(self) -> float | None:
        """The size of the hash range as a fraction of the hash space."""
        if self.hash_start is None or self.hash_end is None:
            return None
        return self.hash_end - self.hash_start


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker of the application."""

    name: str
    held: int
    lag_seconds: float | None = None
    """The highest lag of the shards it holds."""
    records_per_second: float | None = None
    leaving: bool = False
    silent_seconds: float = 0
    """For how long its heartbeat has not changed, as observed here."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event, described in one line."""

    at: float
    kind: EventKind
    text: str
    shard_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GapView:
    """Records that expired before they were delivered."""

    shard_id: str
    text: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that the consumer gave up on, by the user's policy."""

    at: float
    shard_id: str
    partition_key: str
    sequence_number: str
    reason: str
    payload: str = ""
    """The beginning of its data, as text. Left out where no token was presented."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the page shows."""

    at: float
    stream: str
    app: str | None = None
    shards: tuple[ShardView, ...] = ()
    """Each parent before its children."""
    workers: tuple[WorkerView, ...] = ()
    events: tuple[Event, ...] = ()
    """The latest, oldest first."""
    gaps: tuple[GapView, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    verdict: Verdict | None = None
    notice: str = ""
    """Why the rest is not current: it is the last observation that succeeded."""

    def __repr__(self) -> str:
        leases = "" if self.app is None else f", leases of {self.app}"
        return f"<{self.stream}{leases}: {len(self.shards)} shards>"

    def _repr_html_(self) -> str:
        """Return the lineage as a table, and the leases with it, for notebooks."""
        from shardline.observation.html import snapshot_html

        return snapshot_html(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        plain = {name: getattr(self, name) for name in ("at", "stream", "app", "notice")}
        for name in ("shards", "workers", "events", "gaps", "dead_letters"):
            plain[name] = [asdict(item) for item in getattr(self, name)]
        plain["verdict"] = None if self.verdict is None else _verdict_to_json(self.verdict)
        return plain


def _verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    plain = asdict(verdict)
    plain["breaches"] = {breach.value: count for breach, count in verdict.breaches.items()}
    plain["kept"] = verdict.kept
    return plain
