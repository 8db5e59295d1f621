"""What a person sees of a stream at one moment, as frozen values that become JSON for the page.

Times are seconds since 1970 in the service's clock, because the page draws with numbers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardline.core.promise import Verdict


class EventKind(StrEnum):
    """What happened. The page gives each kind a sign of its own."""

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
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Tenure:
    """Who worked on a shard from a moment on; an owner of None means nobody."""

    owner: str | None
    epoch: int
    since: float


@dataclass(frozen=True, slots=True)
class Read:
    """How far one worker read: what arrived up to this time, and after the one before.

    An owner of None means: before the watching began.
    """

    owner: str | None
    upto: float


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard. What is not known is None, and the page says so."""

    id: str
    parents: tuple[str, ...]
    closed: bool
    state: str
    """Of `core.lineage.State`; without an application only "open" or "closed"."""
    waits_for: tuple[str, ...] = ()
    hash_start: float | None = None
    hash_end: float | None = None
    """The hash range as parts of the whole space, from 0 to 1."""
    opened_at: float | None = None
    closed_at: float | None = None
    owner: str | None = None
    epoch: int | None = None
    checkpoint: str | None = None
    lag_seconds: float | None = None
    records_per_second: float | None = None
    tenures: tuple[Tenure, ...] = ()
    """Since the watching began, oldest first."""
    reads: tuple[Read, ...] = ()
    """Who read what, oldest first; what arrived after the last one is unread."""

    @property
    def share(self) -> float | None:
        """The part of the hash space that it takes, from 0 to 1."""
        if self.hash_start is None or self.hash_end is None:
            return None
        return self.hash_end - self.hash_start


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker of the application."""

    name: str
    held: int
    lag_seconds: float | None = None
    """That of its shard which is furthest behind."""
    records_per_second: float | None = None
    leaving: bool = False
    silent_seconds: float = 0
    """How long its heartbeat has not moved, seen from here."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, in one line."""

    at: float
    kind: EventKind
    text: str
    shard_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GapView:
    """Records that are gone and were not delivered."""

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
    """The beginning of its data, as text."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the page shows."""

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
    """What is wrong with the watching itself; then the rest is what was last seen."""

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
