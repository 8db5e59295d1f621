"""Where reading begins in each shard: at a first start, and for shards that appear later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime, Latest, Position, TrimHorizon

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from shardline.core.shards import Shard


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where to begin in each shard, and which shards are behind us without being read."""

    positions: Mapping[str, Position]
    skipped: frozenset[str]


def begin(listed: Collection[Shard], start: TrimHorizon | Latest | AtTime) -> Beginning:
    """Resolve the start of a consumer that has never run, once and for all.

    From "latest", closed shards are skipped, open ones begin behind their newest record, and a
    child that is listed beside its still open parent begins at its own beginning: all of it
    was written after the parent's latest record.
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


def begin_later(
    listed: Collection[Shard], known: AbstractSet[str], start: TrimHorizon | Latest | AtTime
) -> Beginning:
    """Tell where to begin in shards that were not listed when the consumer began.

    They begin at their beginning, whatever the start was: "latest" is never resolved again. The
    one exception is an ancestor of a known shard that shows up late in a listing, which a
    consumer that began later than the horizon has left behind.
    """
    strangers = [shard for shard in listed if shard.id not in known]
    if isinstance(start, TrimHorizon):
        return Beginning({shard.id: TRIM_HORIZON for shard in strangers}, frozenset())
    behind_us = _ancestors(listed, known)
    return Beginning(
        {shard.id: TRIM_HORIZON for shard in strangers if shard.id not in behind_us},
        frozenset(shard.id for shard in strangers if shard.id in behind_us),
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
