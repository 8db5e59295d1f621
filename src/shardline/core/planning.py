"""What the next batch holds: which shards may be looked at, how far ahead, and what came of it.

Nothing here talks to a service. A plan goes in steps: `settle` tells where a committed offset and
a listing leave us, `looks` says how to look for the end of each shard's next range, the caller
looks, and `next_offset` writes the plan down. Only then is anything read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.lineage import Lineage, marks_in_use, trace
from shardline.core.offsets import Gap, Mark, Offset, Range
from shardline.core.positions import (
    TRIM_HORIZON,
    After,
    AtTime,
    Latest,
    Position,
    ShardEnd,
    TrimHorizon,
)
from shardline.core.starts import Beginning, begin, begin_later
from shardline.errors import InvalidPosition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shardline.core.shards import Shard

RECORDS_PER_SECOND: Final = 1_000
"""A shard takes no more than this, so a window of time bounds a number of records."""

FORWARD_RECORDS: Final = 1_000
"""The most records of one shard that a plan reads ahead of the executors."""

NEAR: Final = timedelta(seconds=5)
"""Closer to the present than this, reading ahead finds the tip sooner than a probe by time."""

LITTLE: Final = timedelta(seconds=1)
"""How far before the present a probe by time looks: there is no record yet at the present."""

_SMALLEST_WINDOW: Final = timedelta(milliseconds=500)
_MARGIN: Final = timedelta(minutes=1)
"""Arrival times are approximate, so a gap is suspected a little early."""

_GAPS_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class Standpoint:
    """How far a shard was delivered, and before which time nothing unread arrived."""

    position: Position
    as_of: datetime | None


@dataclass(frozen=True)
class Ground:
    """Where a committed offset and a listing leave us."""

    start: Position
    created_at: datetime
    standpoints: Mapping[str, Standpoint]
    """Of every shard that is not behind us."""
    drained: Mapping[str, Mark]
    lineage: Lineage
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to plan a shard: under which epoch, and from where if not from the offset."""

    epoch: int = 0
    after: Position | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """How to look for the end of a shard's next range."""

    shard_id: str
    standpoint: Standpoint
    most_records: int
    """What the next range may hold."""
    window: timedelta | None
    """Probe at most this far behind `as_of`; None: as far as the present."""
    closed: bool = False
    """Whether the shard takes no more records: then its tip is its end, and nothing before."""

    @property
    def forward_records(self) -> int:
        """How many to read ahead at most, where a probe by time is the other way."""
        return min(FORWARD_RECORDS, self.most_records)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look found: the end of the next range."""

    upto: Position
    as_of: datetime | None
    after: Position | None = None
    """Where the range begins, if that is known better now than when the last one ended."""


def settle(
    committed: Offset,
    listed: Collection[Shard],
    *,
    created_at: datetime,
    now: datetime,
    retention: timedelta,
    gone: AbstractSet[str] = frozenset(),
) -> Ground:
    """Tell where a committed offset and a listing leave us.

    What the committed batch drained is behind us from now on, and only that: a range that was
    planned but not committed frees no child.
    """
    listed_ids = {shard.id for shard in listed}
    drained = {
        shard_id: replace(mark, listed_at=now) if shard_id in listed_ids else mark
        for shard_id, mark in committed.drained.items()
    }
    standpoints: dict[str, Standpoint] = {}
    for shard_id, item in committed.ranges.items():
        if isinstance(item.upto, ShardEnd):
            drained[shard_id] = Mark(item.as_of, now)
        else:
            standpoints[shard_id] = Standpoint(item.upto, item.as_of)
    beginning = _beginning(committed, listed, standpoints.keys() | drained.keys())
    for shard_id in sorted(beginning.skipped):
        drained[shard_id] = Mark(None, now)
    parents = {shard.id: shard.parents for shard in listed}
    for shard_id in (shard.id for shard in listed if shard.id in beginning.positions):
        position = beginning.positions[shard_id]
        as_of = _first_as_of(
            position, parents[shard_id], standpoints, drained, oldest_kept=now - retention
        )
        standpoints[shard_id] = Standpoint(position, as_of)
    for shard_id, standpoint in standpoints.items():
        position = standpoint.position
        if isinstance(position, AtTime) and _found_in_parent(
            position.time, parents.get(shard_id, ()), drained
        ):
            standpoints[shard_id] = replace(standpoint, position=TRIM_HORIZON)
    in_use = marks_in_use(listed, drained.keys())
    return Ground(
        start=committed.start,
        created_at=created_at,
        standpoints=standpoints,
        drained={
            shard_id: mark
            for shard_id, mark in drained.items()
            if shard_id in in_use or mark.listed_at + retention > now
        },
        lineage=trace(listed, drained=drained.keys(), known=standpoints.keys(), gone=gone),
        gaps=committed.gaps,
    )


def suspects(
    standpoints: Mapping[str, Standpoint], *, now: datetime, retention: timedelta
) -> tuple[str, ...]:
    """Return the shards whose unread records may have been dropped, by their age alone.

    Kinesis may say nothing about a trimmed position and go on at its horizon, so age is asked
    first; whether the record at the position is still there settles it.
    """
    return tuple(
        shard_id
        for shard_id, standpoint in standpoints.items()
        if standpoint.as_of is not None and standpoint.as_of + retention - _MARGIN < now
    )


def go_on_at_horizon(ground: Ground, shard_id: str, *, now: datetime, reason: str) -> Ground:
    """Declare a gap in a shard that is still there: what is left is read from the horizon on."""
    standpoint = ground.standpoints[shard_id]
    gap = Gap(shard_id, standpoint.position, standpoint.as_of, now, reason)
    standpoints = {**ground.standpoints, shard_id: Standpoint(TRIM_HORIZON, None)}
    return replace(ground, standpoints=standpoints, gaps=(*ground.gaps, gap)[-_GAPS_KEPT:])


def note_gaps(ground: Ground, gaps: Collection[Gap]) -> Ground:
    """Write gaps down that a batch was found to have which was planned before."""
    return replace(ground, gaps=(*ground.gaps, *gaps)[-_GAPS_KEPT:])


def give_up(ground: Ground, shard_id: str, *, now: datetime, reason: str) -> Ground:
    """Declare the rest of a shard that is gone a gap: it holds back its children no more."""
    standpoint = ground.standpoints[shard_id]
    gap = Gap(shard_id, standpoint.position, standpoint.as_of, now, reason)
    return replace(
        ground,
        standpoints={k: v for k, v in ground.standpoints.items() if k != shard_id},
        drained={**ground.drained, shard_id: Mark(standpoint.as_of, now)},
        gaps=(*ground.gaps, gap)[-_GAPS_KEPT:],
    )


def looks(
    standpoints: Mapping[str, Standpoint],
    *,
    now: datetime,
    max_records: int | None,
    closed: AbstractSet[str] = frozenset(),
) -> tuple[Look, ...]:
    """Divide the records of a batch among the shards: those behind share one half by windows.

    Where there are more shards than records allowed, the first ones are looked at: the caller
    puts those first that were not looked at for longest.
    """
    if not standpoints:
        return ()
    if max_records is None:
        return tuple(
            Look(shard_id, standpoint, FORWARD_RECORDS, None, shard_id in closed)
            for shard_id, standpoint in standpoints.items()
        )
    chosen = list(standpoints.items())[:max_records]
    far = {shard_id for shard_id, standpoint in chosen if is_behind(standpoint.as_of, now)}
    behind, near = len(far), len(chosen) - len(far)
    half = max_records // 2 if behind else max_records
    share_near = max(1, min(FORWARD_RECORDS, half // max(near, 1)))
    share_behind = max(1, (max_records - share_near * near) // max(behind, 1))
    # One record more than the window's: the one that the probe finds behind it.
    window = timedelta(seconds=(share_behind - 1) / RECORDS_PER_SECOND)
    no_window = timedelta(0)
    return tuple(
        Look(shard_id, standpoint, share_behind, window, shard_id in closed)
        if shard_id in far
        else Look(shard_id, standpoint, share_near, no_window, shard_id in closed)
        for shard_id, standpoint in chosen
    )


def is_behind(as_of: datetime | None, now: datetime) -> bool:
    """Say whether a shard is further behind than reading ahead would soon make good."""
    return as_of is None or as_of < now - NEAR


def probe_time(
    look: Look,
    *,
    now: datetime,
    nothing_from: datetime | None = None,
    until: datetime | None = None,
) -> datetime | None:
    """Return the time to probe at, or None to read ahead instead.

    Nothing lies at or behind `nothing_from`, as an earlier probe found: so halve what is left.
    """
    as_of = look.standpoint.as_of
    if as_of is None or not is_behind(as_of, now):
        return None
    newest = now - LITTLE
    if until is not None:
        newest = min(newest, until)
    time = newest if look.window is None else min(as_of + look.window, newest)
    if nothing_from is not None and time >= nothing_from:
        time = as_of + (nothing_from - as_of) / 2
    return time if time - as_of >= _SMALLEST_WINDOW else None


def next_offset(
    ground: Ground, sights: Mapping[str, Sight], claims: Mapping[str, Claim] | None = None
) -> Offset:
    """Write the plan down: the ranges of the next batch, and all that a restart needs."""
    ranges: dict[str, Range] = {}
    claims = claims or {}
    for shard_id, standpoint in ground.standpoints.items():
        epoch = claims[shard_id].epoch if shard_id in claims else 0
        position, sight = standpoint.position, sights.get(shard_id)
        if sight is None:
            ranges[shard_id] = Range(position, position, standpoint.as_of, epoch)
        else:
            after = position if sight.after is None else sight.after
            ranges[shard_id] = Range(after, sight.upto, sight.as_of, epoch)
    return Offset(ground.start, ground.created_at, ranges, ground.drained, ground.gaps)


def holds_news(committed: Offset, planned: Offset) -> bool:
    """Say whether a plan is worth a batch: records, or knowledge that a restart would miss."""
    if committed.created_at is None or committed.gaps != planned.gaps:
        return True
    if any(not item.empty for item in planned.ranges.values()):
        return True
    unfinished = {k for k, item in committed.ranges.items() if not isinstance(item.upto, ShardEnd)}
    return unfinished != planned.ranges.keys()


def stale(committed: Offset, planned: Offset, *, after: timedelta) -> bool:
    """Say whether an idle query should write down anew when nothing unread was there."""
    for shard_id, item in planned.ranges.items():
        before = committed.ranges.get(shard_id)
        if before is not None and before.as_of and item.as_of and item.as_of - before.as_of > after:
            return True
    return False


def tasks(
    ranges: Mapping[str, Range], shards_per_task: int
) -> tuple[tuple[tuple[str, Range], ...], ...]:
    """Share the ranges that hold records among tasks, a whole range each, in stable order."""
    full = [(shard_id, item) for shard_id, item in sorted(ranges.items()) if not item.empty]
    count = -(-len(full) // shards_per_task)
    return tuple(tuple(full[index::count]) for index in range(count))


def _beginning(committed: Offset, listed: Collection[Shard], known: AbstractSet[str]) -> Beginning:
    start = committed.start
    if not isinstance(start, TrimHorizon | Latest | AtTime):
        raise InvalidPosition(f"an offset cannot have begun at {start}")
    if committed.created_at is None and not known:
        return begin(listed, start)
    return begin_later(listed, known, start)


def _first_as_of(
    position: Position,
    parents: Sequence[str],
    standpoints: Mapping[str, Standpoint],
    drained: Mapping[str, Mark],
    *,
    oldest_kept: datetime,
) -> datetime | None:
    """Tell before which time nothing in a new shard arrived, if anything vouches for that."""
    if isinstance(position, AtTime):
        return position.time if position.time > oldest_kept else None
    if not isinstance(position, TrimHorizon):
        return None
    return _earliest(
        standpoints[parent].as_of if parent in standpoints else drained[parent].as_of
        for parent in parents
        if parent in standpoints or parent in drained
    )


def _found_in_parent(time: datetime, parents: Sequence[str], drained: Mapping[str, Mark]) -> bool:
    """Say whether the time looked for was found in a parent: from there on lineage rules."""
    return any((drained[parent].as_of or time) > time for parent in parents if parent in drained)


def _earliest(times: Iterable[datetime | None]) -> datetime | None:
    found = list(times)
    known = [time for time in found if time is not None]
    return min(known) if known and len(known) == len(found) else None


def behind(position: Position, sight: Position) -> bool:
    """Say whether `sight` lies behind `position`, so that a range between the two holds records."""
    match position, sight:
        case After(before), After(found):
            return found > before
        case _, After():
            return True
    return False
