"""Where reading starts in each shard: at a first start, and in shards that appear later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardline.core.lineage import descends
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime, Latest, Position, TrimHorizon

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from shardline.core.shards import Shard


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where to start in each shard, and which shards count as drained without being read."""

    positions: Mapping[str, Position]
    skipped: frozenset[str]


def begin(listed: Collection[Shard], start: TrimHorizon | Latest | AtTime) -> Beginning:
    """Resolve the start of a consumer that has never run.

    From "latest", closed shards are skipped, open ones start after their newest record, and a
    child that is listed beside its still open parent starts at its beginning: all of it was
    written after the parent's latest record.
    """
    if not isinstance(start, Latest):
        return Beginning({shard.id: start for shard in listed}, frozenset())
    open_ids = {shard.id for shard in listed if not shard.closed}
    positions: dict[str, Position] = {}
    for shard in listed:
        if not shard.closed:
            after_open_parent = any(parent in open_ids for parent in shard.parents)
            positions[shard.id] = TRIM_HORIZON if after_open_parent else LATEST
    return Beginning(positions, frozenset(s.id for s in listed if s.closed))


def begin_at_time(
    listed: Collection[Shard],
    start: TrimHorizon | AtTime,
    *,
    skipped: AbstractSet[str] | None,
    known: AbstractSet[str],
) -> dict[str, Position]:
    """Return where to start in each shard, for a start at "latest" that is resolved to a time.

    `skipped` are the shards that were closed before that time, if this is known; `known` are
    those that are read. A child of a shard that is read starts at its beginning: all of it was
    written after what its parent holds.
    """
    read = {shard.id for shard in listed if not shard.closed} | known
    if skipped is not None:
        read.update(shard.id for shard in listed if shard.id not in skipped)
    return {
        shard.id: TRIM_HORIZON if any(parent in read for parent in shard.parents) else start
        for shard in listed
        if shard.id not in (skipped or ())
    }


def begin_later(
    listed: Collection[Shard], known: AbstractSet[str], start: TrimHorizon | Latest | AtTime
) -> Beginning:
    """Return where to start in shards that were not listed when the consumer started.

    Those that descend from a known shard start at their beginning, whatever the start was:
    "latest" is never resolved again. Any other was missing from the first listing. After a start
    at a time it is read from that time on, which its own records decide. After "latest", an
    ancestor of a known shard is skipped: its records are older than the start.
    """
    strangers = [shard for shard in listed if shard.id not in known]
    if isinstance(start, TrimHorizon):
        return Beginning({shard.id: TRIM_HORIZON for shard in strangers}, frozenset())
    ancestors = _ancestors(listed, known)
    if isinstance(start, Latest):
        return Beginning(
            {shard.id: TRIM_HORIZON for shard in strangers if shard.id not in ancestors},
            frozenset(shard.id for shard in strangers if shard.id in ancestors),
        )
    parents = {shard.id: shard.parents for shard in listed}

    def parents_of(shard_id: str) -> Iterable[str]:
        return parents.get(shard_id, ())

    return Beginning(
        {
            shard.id: TRIM_HORIZON if descends(shard.id, known, parents_of) else start
            for shard in strangers
        },
        frozenset(),
    )


def _ancestors(listed: Iterable[Shard], of: AbstractSet[str]) -> frozenset[str]:
    parents = {shard.id: shard.parents for shard in listed}
    found: set[str] = set()
    frontier = [parent for shard_id in of for parent in parents.get(shard_id, ())]
    while frontier:
        shard_id = frontier.pop()
        if shard_id not in found:
            found.add(shard_id)
            frontier.extend(parents.get(shard_id, ()))
    return frozenset(found)
