"""What a stream knows of every shard: where it stands in each, and which are behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardline.core.lineage import Lineage, children_of, trace
from shardline.core.positions import TRIM_HORIZON, After, AtTime, Latest, Position, TrimHorizon
from shardline.core.starts import begin, begin_later

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from shardline.core.shards import Shard

Start = TrimHorizon | Latest | AtTime


@dataclass(slots=True)
class Place:
    """Where the consumer stands in one shard."""

    clock: int
    """The shard's number in the total order: in the order in which shards were first seen."""
    position: Position
    """Behind the last record delivered."""
    as_of: datetime | None = None
    """The service's time at which nothing undelivered lay before this place; None if not known."""


class Ledger:
    """Every shard's place, and the shards that are drained. Follows what is delivered."""

    def __init__(
        self,
        start: Start,
        places: Mapping[str, Place],
        drained: Iterable[str],
        left_at: Mapping[str, datetime] | None = None,
    ) -> None:
        self.start = start
        self.places = dict(places)
        self.drained = set(drained)
        self.gone: set[str] = set()
        """Shards that others name as parents, and of which the service says that they are gone."""
        self.listed: tuple[Shard, ...] = ()
        self._parents: dict[str, tuple[str, ...]] = {}
        self._children: dict[str, tuple[str, ...]] = {}
        self.left_at: dict[str, datetime | None] = dict(left_at or {})
        """Of drained shards: the `as_of` of their places, from which their children go on."""
        self._next_clock = 1 + max((place.clock for place in self.places.values()), default=-1)

    @classmethod
    def beginning(cls, listed: tuple[Shard, ...], start: Start) -> Ledger:
        """Return the ledger of a consumer that begins now."""
        beginning = begin(listed, start)
        places = {
            shard_id: Place(clock, position)
            for clock, (shard_id, position) in enumerate(beginning.positions.items())
        }
        # What "latest" leaves behind, it leaves behind whether or not the listing shows it.
        unlisted = {
            parent
            for shard in listed
            for parent in shard.parents
            if isinstance(beginning.positions.get(shard.id), Latest)
            and parent not in beginning.positions
        }
        ledger = cls(start, places, beginning.skipped | unlisted)
        ledger._list(listed)
        return ledger

    def see(self, listed: tuple[Shard, ...]) -> None:
        """Take in a new listing: strangers get a place, or are left behind."""
        self.vouch()
        earliest = self._earliest_as_of()
        self._list(listed)
        beginning = begin_later(listed, self.places.keys() | self.drained, self.start)
        self.drained |= beginning.skipped
        for shard_id, position in beginning.positions.items():
            parents = self._parents[shard_id]
            as_of = _latest(self.left_at.get(parent) for parent in parents)
            if any(p not in self.places and p not in self.drained for p in parents):
                # Born and gone between two listings. It descended from a shard that we knew.
                as_of = as_of or earliest
            self.places[shard_id] = Place(self._next_clock, position, as_of)
            self._next_clock += 1

    def lineage(self) -> Lineage:
        """Tell which shards may be read now."""
        return trace(self.listed, drained=self.drained, known=self.places.keys(), gone=self.gone)

    def children(self, shard_id: str) -> tuple[str, ...]:
        """Return the listed children of a shard."""
        return self._children.get(shard_id, ())

    def drain(self, shard_id: str) -> None:
        """Note that no more will come from a shard: all was delivered, or what was not is gone.

        Its children go on from the time up to which it is known that nothing was lost.
        """
        place = self.places.pop(shard_id)
        self.drained.add(shard_id)
        self.left_at[shard_id] = place.as_of
        for child_id in self.children(shard_id):
            child = self.places.get(child_id)
            if child is None:
                continue
            child.as_of = _latest((child.as_of, place.as_of))
            if isinstance(child.position, AtTime) and isinstance(place.position, After):
                # The time was found in the parent: from there on lineage rules, not timestamps.
                child.position = TRIM_HORIZON

    def as_of(self, shard_id: str) -> datetime | None:
        """Return a time before which nothing undelivered lies in a shard, or in its ancestors.

        None if nothing was ever promised about it: reading has not begun in any of its ancestors.
        """
        frontier, seen = [shard_id], set[str]()
        found: list[datetime | None] = []
        while frontier:
            ancestor = frontier.pop()
            if ancestor not in seen:
                seen.add(ancestor)
                place = self.places.get(ancestor)
                found.append(place.as_of if place else self.left_at.get(ancestor))
                frontier.extend(self._parents.get(ancestor, ()))
        return _latest(found)

    def vouch(self) -> None:
        """Write down for every shard what its ancestors vouch for: they may not be listed again."""
        for shard_id, place in self.places.items():
            place.as_of = place.as_of or self.as_of(shard_id)

    def _earliest_as_of(self) -> datetime | None:
        """Return a time before which nothing undelivered lies in any shard."""
        leaves = [as_of for s, as_of in self.left_at.items() if not self.children(s)]
        known = (*(place.as_of for place in self.places.values()), *leaves)
        return min((as_of for as_of in known if as_of is not None), default=None)

    def _list(self, listed: tuple[Shard, ...]) -> None:
        self.listed = listed
        self._parents = {shard.id: shard.parents for shard in listed}
        self._children = children_of(listed)


def _latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((time for time in times if time is not None), default=None)
