"""The stream's state per shard: its position in each shard, and which shards are drained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardline.core.lineage import Lineage, children_of, descends, trace, uncovered
from shardline.core.positions import TRIM_HORIZON, After, AtTime, Latest, Position, TrimHorizon
from shardline.core.starts import begin, begin_later

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from shardline.core.shards import Shard

Start = TrimHorizon | Latest | AtTime


@dataclass(slots=True)
class Place:
    """The consumer's position in one shard."""

    clock: int
    """The shard's number in the total order: shards are numbered as they are first listed."""
    position: Position
    """After the last delivered record."""
    as_of: datetime | None = None
    """A service time before which nothing undelivered arrived in the shard; None if unknown."""


class Ledger:
    """The place in every shard, and the drained shards. Updated as records are delivered."""

    def __init__(
        self,
        start: Start,
        places: Mapping[str, Place],
        drained: Iterable[str],
        drained_as_of: Mapping[str, datetime] | None = None,
    ) -> None:
        self.start = start
        self.places = dict(places)
        self.drained = set(drained)
        self.gone: set[str] = set()
        """Shards that others name as parents and that the service says it no longer has."""
        self.listed: tuple[Shard, ...] = ()
        self._parents: dict[str, tuple[str, ...]] = {}
        self._children: dict[str, tuple[str, ...]] = {}
        self.drained_as_of: dict[str, datetime | None] = dict(drained_as_of or {})
        """The last `as_of` of each drained shard, which its children inherit."""
        self._next_clock = 1 + max((place.clock for place in self.places.values()), default=-1)

    @classmethod
    def starting_at(cls, start: Start, listed: tuple[Shard, ...]) -> Ledger:
        """Return the ledger of a consumer that has read nothing yet."""
        beginning = begin(listed, start)
        places = {
            shard_id: Place(clock, position)
            for clock, (shard_id, position) in enumerate(beginning.positions.items())
        }
        # "latest" skips the parents of open shards, whether or not the listing shows them.
        unlisted = {
            parent
            for shard in listed
            for parent in shard.parents
            if isinstance(beginning.positions.get(shard.id), Latest)
            and parent not in beginning.positions
        }
        ledger = cls(start, places, beginning.skipped | unlisted)
        ledger._set_listing(listed)
        return ledger

    def update_listing(self, listed: tuple[Shard, ...]) -> None:
        """Take over a new listing: each unknown shard gets a place, or counts as skipped."""
        self.inherit_as_of()
        earliest = self._earliest_as_of()
        self._set_listing(listed)
        beginning = begin_later(listed, self.places.keys() | self.drained, self.start)
        self.drained |= beginning.skipped
        for shard_id, position in beginning.positions.items():
            parents = self._parents[shard_id]
            as_of = latest_of(*(self.drained_as_of.get(parent) for parent in parents))
            if any(p not in self.places and p not in self.drained for p in parents):
                # The parent appeared and expired between two listings. It descended from a
                # shard in one of our places.
                as_of = as_of or earliest
            self.places[shard_id] = Place(self._next_clock, position, as_of)
            self._next_clock += 1

    def lineage(self) -> Lineage:
        """Return which shards may be read now, and which must wait."""
        return trace(self.listed, drained=self.drained, known=self.places.keys(), gone=self.gone)

    def set_gone(self, shard_ids: Iterable[str]) -> None:
        """Record shards that the service did not find, unless the listing is older than they."""
        if uncovered(self.listed):
            return
        listed = {shard.id for shard in self.listed}
        self.gone.update(
            i for i in shard_ids if not descends(i, listed, lambda k: self._parents.get(k, ()))
        )

    def children(self, shard_id: str) -> tuple[str, ...]:
        """Return the listed children of a shard."""
        return self._children.get(shard_id, ())

    def drain(self, shard_id: str) -> None:
        """Record that a shard has no more records to deliver, or that the rest of it expired.

        Its children inherit the time before which nothing was lost.
        """
        place = self.places.pop(shard_id)
        self.drained.add(shard_id)
        self.drained_as_of[shard_id] = place.as_of
        for child_id in self.children(shard_id):
            child = self.places.get(child_id)
            if child is None:
                continue
            child.as_of = latest_of(child.as_of, place.as_of)
            if isinstance(child.position, AtTime) and isinstance(place.position, After):
                # The time was found in the parent: all records of the child come after it.
                child.position = TRIM_HORIZON

    def as_of(self, shard_id: str) -> datetime | None:
        """Return a time before which nothing undelivered lies in a shard or in its ancestors.

        Return None if neither the shard nor any of its ancestors has been read.
        """
        frontier, seen = [shard_id], set[str]()
        found: list[datetime | None] = []
        while frontier:
            ancestor = frontier.pop()
            if ancestor not in seen:
                seen.add(ancestor)
                place = self.places.get(ancestor)
                found.append(place.as_of if place else self.drained_as_of.get(ancestor))
                frontier.extend(self._parents.get(ancestor, ()))
        return latest_of(*found)

    def inherit_as_of(self) -> None:
        """Copy `as_of` from ancestors into every place: a later listing may lack the ancestors."""
        for shard_id, place in self.places.items():
            place.as_of = place.as_of or self.as_of(shard_id)

    def _earliest_as_of(self) -> datetime | None:
        """Return a time before which nothing undelivered lies in any shard."""
        leaves = [as_of for s, as_of in self.drained_as_of.items() if not self.children(s)]
        known = (*(place.as_of for place in self.places.values()), *leaves)
        return min((as_of for as_of in known if as_of is not None), default=None)

    def _set_listing(self, listed: tuple[Shard, ...]) -> None:
        self.listed = listed
        in_use = self.places.keys() | self.drained
        self._parents = {k: v for k, v in self._parents.items() if k in in_use}
        self._parents.update((shard.id, shard.parents) for shard in listed)
        self._children = children_of(listed)


def latest_of(*times: datetime | None) -> datetime | None:
    """Return the latest of the times that are known; None if none is."""
    return max((time for time in times if time is not None), default=None)
