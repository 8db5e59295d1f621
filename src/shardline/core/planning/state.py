"""Where a committed offset and a listing leave a query: the place of every shard, and who waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.gaps import (
    Gap,
    first_as_of,
    later_as_of,
    moved_with_parents,
    vouched,
)
from shardline.core.lineage import Lineage, children_of, marks_in_use, trace
from shardline.core.offsets import Mark, Offset, Range, whole_hour
from shardline.core.planning.queries import Place
from shardline.core.positions import (
    TRIM_HORIZON,
    After,
    AtTime,
    Latest,
    Position,
    ShardEnd,
    TrimHorizon,
)
from shardline.core.starts import begin, begin_later
from shardline.errors import InvalidPosition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shardline.core.shards import Shard

_GAPS_KEPT: Final = 100
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class PlanState:
    """What the next plan starts from."""

    start: Position
    stream: str
    """Its ARN."""
    created_at: datetime
    places: Mapping[str, Place]
    """Of every shard that is not drained, each parent before its children."""
    drained: Mapping[str, Mark]
    lineage: Lineage
    gaps: tuple[Gap, ...]

    @property
    def read_since(self) -> datetime | None:
        """Up to this time everything was read, in all shards; None: nothing was read yet."""
        return _read_since(self.places, self.drained, self.gaps)

    @property
    def known(self) -> AbstractSet[str]:
        """The shards with a place or a mark."""
        return self.places.keys() | self.drained.keys()

    @property
    def readable(self) -> tuple[str, ...]:
        """The shards that may be read now.

        A shard whose parents no listing shows may descend, through them, from any other shard that
        we know and no listing shows. It waits until it is decided what became of those.
        """
        undecided = any(self.lineage[shard_id].shard is None for shard_id in self.places)
        return tuple(
            shard.id
            for shard in self.lineage.readable
            if shard.id in self.places and not (undecided and self._is_orphan(shard))
        )

    def _is_orphan(self, shard: Shard) -> bool:
        """Return true if a shard is not begun, and the parents of one of its parents unknown."""
        begun = isinstance(self.places[shard.id].position, After)
        return not begun and any(
            self.lineage[parent].shard is None and parent not in self.places
            for parent in shard.parents
        )


def state_after(
    committed: Offset,
    listed: Collection[Shard],
    *,
    stream: str,
    created_at: datetime,
    now: datetime,
    retention: timedelta,
    gone: AbstractSet[str] = frozenset(),
) -> PlanState:
    """Return where a committed offset and a listing leave a query.

    A shard is drained once the batch that held its end is committed; a range that was planned but
    not committed frees no child.
    """
    listed_ids = {shard.id for shard in listed}
    drained = {
        shard_id: replace(mark, listed_at=whole_hour(now)) if shard_id in listed_ids else mark
        for shard_id, mark in committed.drained.items()
    }
    places: dict[str, Place] = {}
    for shard_id, item in committed.ranges.items():
        as_of = item.as_of or first_as_of(item.upto, known_at=now, retention=retention)
        if isinstance(item.upto, ShardEnd):
            drained[shard_id] = Mark(as_of, whole_hour(now))
        else:
            places[shard_id] = Place(item.upto, as_of)
    begun = {k for k, place in places.items() if isinstance(place.position, After)}
    for shard_id, place in _new_places(
        committed,
        listed,
        places.keys() | drained.keys(),
        created_at=created_at,
        now=now,
        retention=retention,
        read_since=_read_since(places, drained, committed.gaps),
    ).items():
        if place is None:
            drained[shard_id] = Mark(None, whole_hour(now))
        else:
            places[shard_id] = place
    parents = {shard.id: shard.parents for shard in listed}
    # A shard that was begun waits for no parent: those that are not listed are not asked for.
    past = {parent for shard_id in begun for parent in parents.get(shard_id, ())}
    past -= listed_ids | places.keys() | drained.keys()
    lineage = trace(listed, drained=drained.keys(), known=places.keys(), gone=gone | past)
    in_use = marks_in_use(listed, drained.keys())
    passed = _with_begun_children(listed, begun | drained.keys())
    return PlanState(
        start=committed.start,
        stream=stream,
        created_at=created_at,
        places=_moved(places, parents, drained, lineage, committed.gaps),
        drained={
            shard_id: replace(mark, as_of=None) if shard_id in passed else mark
            for shard_id, mark in drained.items()
            if shard_id in in_use or mark.listed_at + retention + _HOUR > now
        },
        lineage=lineage,
        gaps=committed.gaps,
    )


def with_gap(state: PlanState, gap: Gap, *, gone: bool, now: datetime) -> PlanState:
    """Return the state with a gap on record, and with what is left after it.

    A shard that is gone holds up its children no more. Of one that still exists, what is left is
    read from the horizon on.
    """
    state = replace(state, gaps=(*state.gaps, gap)[-_GAPS_KEPT:])
    place = state.places.get(gap.shard_id)
    if place is None or place.position != gap.after:
        return state
    places = {k: v for k, v in state.places.items() if k != gap.shard_id}
    if gone:
        drained = {**state.drained, gap.shard_id: Mark(gap.since, whole_hour(now))}
        return replace(state, places=places, drained=drained)
    # Nothing before the end of the gap is promised any more.
    return replace(state, places={**places, gap.shard_id: Place(TRIM_HORIZON, gap.until)})


def next_offset(state: PlanState, ranges: Mapping[str, Range]) -> Offset:
    """Return the plan as an offset: the ranges of the next batch, and all that a restart needs."""
    empty = {
        shard_id: Range(place.position, place.position, place.as_of)
        for shard_id, place in state.places.items()
    }
    return Offset(
        state.start,
        state.created_at,
        empty | dict(ranges),
        state.drained,
        state.gaps,
        state.stream,
    )


def holds_news(committed: Offset, planned: Offset) -> bool:
    """Return true if a plan is worth a batch: records, or what a restart would not know."""
    if committed.created_at is None or committed.gaps != planned.gaps:
        return True
    if any(not item.empty for item in planned.ranges.values()):
        return True
    unfinished = {k for k, item in committed.ranges.items() if not isinstance(item.upto, ShardEnd)}
    return unfinished != planned.ranges.keys()


def is_stale(committed: Offset, planned: Offset, *, after: timedelta) -> bool:
    """Return true if an idle query should write down anew since when nothing unread was there."""
    for shard_id, item in planned.ranges.items():
        before = committed.ranges.get(shard_id)
        if before is not None and before.as_of and item.as_of and item.as_of - before.as_of > after:
            return True
    return False


def _read_since(
    places: Mapping[str, Place], drained: Mapping[str, Mark], gaps: Sequence[Gap]
) -> datetime | None:
    times = [vouched(shard_id, place.as_of, gaps) for shard_id, place in places.items()]
    times += [vouched(shard_id, mark.as_of, gaps) for shard_id, mark in drained.items()]
    return min((time for time in times if time is not None), default=None)


def _with_begun_children(listed: Collection[Shard], begun: AbstractSet[str]) -> set[str]:
    """Return the shards whose listed children have all been begun: their times are in those."""
    return {
        shard_id
        for shard_id, children in children_of(listed).items()
        if all(child in begun for child in children)
    }


def _new_places(
    committed: Offset,
    listed: Collection[Shard],
    known: AbstractSet[str],
    *,
    created_at: datetime,
    now: datetime,
    retention: timedelta,
    read_since: datetime | None,
) -> dict[str, Place | None]:
    """Return a place for each shard that is listed and not known; None: it is left out."""
    start = committed.start
    if not isinstance(start, TrimHorizon | Latest | AtTime):
        raise InvalidPosition(f"an offset cannot start at {start}")
    first = committed.created_at is None and not known
    beginning = begin(listed, start) if first else begin_later(listed, known, start)
    places: dict[str, Place | None] = dict.fromkeys(sorted(beginning.skipped))
    for shard_id, position in beginning.positions.items():
        as_of = (
            first_as_of(position, known_at=now, retention=retention)
            if first
            else read_since or later_as_of(known_at=now, retention=retention)
        )
        places[shard_id] = Place(position, max(as_of, created_at))  # no record is older
    return places


def _moved(
    places: Mapping[str, Place],
    parents: Mapping[str, Sequence[str]],
    drained: Mapping[str, Mark],
    lineage: Lineage,
    gaps: Sequence[Gap],
) -> dict[str, Place]:
    """Return the places in the order of the lineage, with their `as_of` moved with the parents'."""
    ordered = [shard_id for shard_id in lineage.standings if shard_id in places]
    left = {shard_id: mark.as_of for shard_id, mark in drained.items()}
    as_of = moved_with_parents({k: places[k].as_of for k in ordered}, parents, left, gaps)
    moved = {k: Place(places[k].position, as_of[k]) for k in ordered}
    for shard_id, place in moved.items():
        if isinstance(place.position, AtTime) and any(
            (left.get(parent) or place.position.time) > place.position.time
            for parent in parents.get(shard_id, ())
        ):
            # The time was found in a parent: from there on lineage rules, not stamps.
            moved[shard_id] = Place(TRIM_HORIZON, place.as_of)
    return moved
