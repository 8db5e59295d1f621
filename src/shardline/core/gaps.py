"""Whether records expired before they were delivered: one rule for source, worker and stream.

Each shard that is not drained has a place, the position after what was delivered, and each place
has an `as_of`: no undelivered record of the shard arrived before that service time. A record lives
for the retention, so nothing can be lost before `as_of + retention`. After that the service is
asked whether the record at the place is still kept, and its answer decides.

A place has an `as_of` from the moment its shard is known. It moves forward with what is read, and
a child's moves with its parents', since everything in a child arrived after all that its parents
hold.

| mistaken for a gap | is not | because |
|---|---|---|
| an old place in a quiet shard | its `as_of` is young | an answer at the tip moves it |
| a child that waits for a slow parent | its `as_of` is its parent's | it moves with the parent |
| "not found" for a young shard | the answer is stale | nothing younger than the retention expires |
| "trimmed" at the horizon | the horizon moved meanwhile | the place has no record to lose |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from shardline.core.positions import After, AtTime, Latest, Position, ShardEnd, TrimHorizon

MARGIN: Final = timedelta(minutes=1)
"""Arrival times are approximate, so that a loss is looked for this much early."""

SKEW: Final = timedelta(seconds=1)
"""Records are stamped on many machines, whose clocks differ a little."""

START_GRACE: Final = timedelta(hours=1)
"""Starting at the horizon means: what is still kept this long after the start, at the latest."""


class Evidence(Enum):
    """What the service said about a place."""

    NONE = "none"
    """It was not asked."""
    KEPT = "kept"
    """It gave the very record at the place: nothing after that is lost."""
    TRIMMED = "trimmed"
    """It refused the place as trimmed, or gave a newer record instead of the one at the place."""
    GONE = "gone"
    """A listing lacks the shard, and the service does not find it when asked for it."""


class Verdict(Enum):
    """What to do at a place."""

    SAFE = "safe"
    """Nothing after it is lost: go on there."""
    ASK = "ask"
    """Something may be lost: ask whether the record at the place is still kept, and judge again."""
    HORIZON = "horizon"
    """The record at the place expired, but nothing after it: go on at the horizon, without loss."""
    AGAIN = "again"
    """The service's answer cannot be true yet: ask the same once more, a little later."""
    GAP = "gap"
    """Records after the place may be lost."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that expired before they were delivered, or may have."""

    shard_id: str
    after: Position
    """The last place that was delivered up to."""
    since: datetime
    """Nothing that arrived before this time is lost."""
    until: datetime
    """Nothing that arrived after this time is lost: the horizon when the gap was found."""
    reason: str

    def __str__(self) -> str:
        return (
            f"gap in {self.shard_id} after {place_text(self.after)}: what arrived there from "
            f"{self.since.isoformat()} to {self.until.isoformat()} may be lost: {self.reason}"
        )


def judge(
    position: Position,
    as_of: datetime,
    *,
    now: datetime,
    retention: timedelta,
    evidence: Evidence = Evidence.NONE,
) -> Verdict:
    """Return whether records after a place may be lost. `now` is the service's time."""
    if evidence is Evidence.KEPT:
        return Verdict.SAFE
    aged = may_have_expired(as_of, now=now, retention=retention)
    names_a_record = isinstance(position, After)
    if evidence is Evidence.NONE:
        if not aged:
            return Verdict.SAFE
        return Verdict.ASK if names_a_record else Verdict.GAP
    if aged:
        return Verdict.GAP
    if evidence is Evidence.TRIMMED and names_a_record:
        return Verdict.HORIZON
    return Verdict.AGAIN


def may_have_expired(as_of: datetime, *, now: datetime, retention: timedelta) -> bool:
    """Return true if a record that arrived at `as_of` may have expired by now."""
    return as_of + retention - MARGIN < now


def gap_at(
    shard_id: str,
    position: Position,
    as_of: datetime,
    *,
    now: datetime,
    retention: timedelta,
    reason: str,
) -> Gap:
    """Return the gap after a place, found now."""
    return Gap(shard_id, position, as_of, max(as_of, now - retention + MARGIN), reason)


def first_as_of(position: Position, *, known_at: datetime, retention: timedelta) -> datetime:
    """Return the `as_of` of a place where a consumer starts, in a shard that it knows from now on.

    The horizon moves on between the start and the first read. A start there promises what is kept
    `START_GRACE` later, so that the first read is no gap if it comes before that.
    """
    horizon = known_at - retention + min(START_GRACE, retention / 24)
    match position:
        case AtTime(time):
            return max(time, horizon)
        case Latest() | ShardEnd():
            return known_at
        case TrimHorizon() | After():
            return horizon


def later_as_of(*, known_at: datetime, retention: timedelta) -> datetime:
    """Return the `as_of` that a shard has by itself if it appears after the start.

    Nothing that is kept is older. If its parents are known, `inherited` gives a later time.
    """
    return known_at - retention


def inherited(own: datetime, parents: Iterable[datetime | None]) -> datetime:
    """Return a child's `as_of` from its own and its parents': None for a parent not known."""
    known = [time for time in parents if time is not None]
    return max(own, min(known)) if known else own


def vouched(shard_id: str, as_of: datetime | None, gaps: Iterable[Gap]) -> datetime | None:
    """Return the time before which no record of a shard's children arrived.

    That is its `as_of`, unless a gap has moved it: what is excused in a shard was never read, and
    says nothing about its children. They are as old as the shard was before the gap.
    """
    own = sorted((gap for gap in gaps if gap.shard_id == shard_id), key=lambda gap: gap.until)
    for gap in reversed(own):
        if gap.until == as_of:
            as_of = gap.since
    return as_of


def moved_with_parents(
    as_of: Mapping[str, datetime],
    parents: Mapping[str, Sequence[str]],
    drained: Mapping[str, datetime | None],
    gaps: Sequence[Gap] = (),
) -> dict[str, datetime]:
    """Return the `as_of` of every place after its ancestors moved.

    `as_of` must name each parent before its children; `drained` holds the last `as_of` of shards
    that were drained.
    """
    moved: dict[str, datetime] = {}
    for shard_id, own in as_of.items():
        above = (
            vouched(parent, moved.get(parent) or drained.get(parent), gaps)
            for parent in parents.get(shard_id, ())
        )
        moved[shard_id] = inherited(own, above)
    return moved


def as_of_after_page(
    as_of: datetime,
    *,
    last_arrival: datetime | None,
    behind_ms: int | None,
    service_time: datetime,
    closed: bool,
) -> datetime:
    """Return a place's `as_of` after a page was read from it; it never moves back.

    What is left arrived after the page's last record, and not before the time that the page says
    it lies behind the tip. In a closed shard the tip is its end, which says nothing about its
    children; and DynamoDB Streams does not report it (`behind_ms` is None).
    """
    reached = as_of if last_arrival is None else max(as_of, last_arrival)
    if behind_ms is None or closed:
        return reached
    return max(reached, service_time - timedelta(milliseconds=behind_ms) - SKEW)


def place_text(position: Position) -> str:
    """Return a position in words, as gaps and messages name it."""
    match position:
        case After(sequence, None):
            return sequence.text
        case After(sequence, sub_sequence):
            return f"{sequence.text}/{sub_sequence}" if sub_sequence != -1 else f"before {sequence}"
        case AtTime(time):
            return time.isoformat()
        case TrimHorizon():
            return "its beginning"
        case Latest():
            return "its latest record"
        case ShardEnd():
            return "its end"
