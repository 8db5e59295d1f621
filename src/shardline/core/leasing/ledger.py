"""What one worker knows of the lease rows, and which shards may be worked on by that.

Rows are read late and in pieces; every write is conditional, so acting on an old row costs a
refused write and nothing else. What is known never goes back: rows are ranked by their version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardline.core.leasing.listed_shards import ListedShards
from shardline.core.lineage import State, descends, marks_in_use, trace
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime
from shardline.core.starts import begin, begin_at_time, begin_later

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shardline.core.leasing.rows import Header, LeaseRow
    from shardline.core.positions import Position
    from shardline.core.shards import Shard


@dataclass(slots=True)
class _Standings:
    """What follows from rows and listing; computed anew when the lineage may have changed."""

    leasable: set[str] = field(default_factory=set)
    without_row: set[str] = field(default_factory=set)
    passed: frozenset[str] = frozenset()
    awaited: tuple[str, ...] = ()
    undiscovered: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    missing: list[str] | None = None


class Ledger:
    """Rows by shard and by owner, and the lineage that follows from them."""

    def __init__(self, *, goes_on_after_gaps: bool) -> None:
        self.header: Header | None = None
        self.rows: dict[str, LeaseRow] = {}
        self.owned: dict[str | None, set[str]] = {}
        """The unfinished shards of each owner; those of nobody under None."""
        self.completed: set[str] = set()
        self.lost: dict[str, LeaseRow] = {}
        """Rows that were read and then were gone: somebody deleted them."""
        self.outdated: dict[str, LeaseRow] = {}
        """Rows of an earlier stream of this name: to be replaced."""
        self.skipped: frozenset[str] | None = None
        """The shards that were closed before a start at "latest"; None if that is not known."""
        self.listing = ListedShards()
        self.goes_on_after_gaps = goes_on_after_gaps
        self._absent: set[str] = set()
        """Shards without a row by a consistent read, made after every row of a child was known."""
        self._standings: _Standings | None = None

    # --- what was read ----------------------------------------------------------------------

    def read_header(
        self, header: Header, now: float, skipped: frozenset[str] | None = None
    ) -> None:
        """Record the header row. Rows of an earlier stream of this name are no rows of it."""
        known, self.header = self.header, header
        if known is None or header.stream_created_at != known.stream_created_at:
            self.skipped, self._absent = skipped, set()
            seen = [*self.rows.values(), *self.outdated.values()]
            self.rows, self.owned, self.completed, self.lost = {}, {}, set(), {}
            self.outdated = {}
            self.listing = ListedShards()
            for row in seen:
                self.remember(row, now)
            self._standings = None
        elif known.settled != header.settled:
            self._standings = None

    def remember(self, row: LeaseRow, now: float) -> None:
        """Record a row as read or written, unless a later state of it is known."""
        shard_id = row.shard_id
        if self.header is None or row.stream_created_at != self.header.stream_created_at:
            # A later stream's row is not for this worker to judge: the header will follow.
            if self.header is None or row.stream_created_at < self.header.stream_created_at:
                self.outdated[shard_id] = row
            return
        known = self.rows.get(shard_id)
        if known is not None:
            if known.version >= row.version:
                return
            self.completed.discard(shard_id)
            self._disown(known)
        self.outdated.pop(shard_id, None)
        self.lost.pop(shard_id, None)
        self.rows[shard_id] = row
        if row.completed:
            self.completed.add(shard_id)
        else:
            self.owned.setdefault(row.lease_owner, set()).add(shard_id)
        if known is None:
            self._absent.difference_update(row.parents)
            self.listing.vouch(shard_id, now)
            self._add_to_standings(row)
        elif (known.completed, known.halted) != (row.completed, row.halted) or (
            known.begun != row.begun and any(p not in self.rows for p in row.parents)
        ):
            self._standings = None

    def missed(self, shard_id: str) -> None:
        """Record that a consistent read found no such row."""
        row = self.rows.pop(shard_id, None)
        if row is not None:
            self.lost[shard_id] = row
            self.completed.discard(shard_id)
            self._disown(row)
            self._standings = None
        elif shard_id not in self._absent:
            self._absent.add(shard_id)
            if shard_id in self.unproven:
                self._standings = None

    def deleted(self, shard_id: str) -> None:
        """Record that a row was deleted on purpose."""
        self.missed(shard_id)
        self.outdated.pop(shard_id, None)
        self.lost.pop(shard_id, None)

    def list_shards(self, shards: Iterable[Shard], asked_at: float) -> None:
        """Record a whole listing."""
        if self.listing.record(shards, asked_at):
            self._standings = None

    def list_children(self, children: Iterable[Shard]) -> None:
        """Record the children of a shard."""
        self.listing.add_children(children)
        self._standings = None

    def looked_up(self, shard_id: str, found: bool, now: float) -> None:
        """Record the service's answer for one shard."""
        if found:
            self.listing.vouch(shard_id, now)
        else:
            self.listing.gone.add(shard_id)
        self._standings = None

    # --- what follows -----------------------------------------------------------------------

    @property
    def leasable(self) -> AbstractSet[str]:
        """The shards that may be worked on now and have a row that is not halted."""
        return self._known_standings().leasable

    @property
    def awaited(self) -> Collection[str]:
        """The shards with a row that others wait for."""
        return self._known_standings().awaited

    @property
    def undiscovered(self) -> Collection[str]:
        """The shards that have a row or a child and are not listed: ask the service for them."""
        return self._known_standings().undiscovered

    @property
    def unproven(self) -> Collection[str]:
        """Parents that were skipped if they have no row: read consistently before that is so."""
        return self._known_standings().unproven

    @property
    def gaps(self) -> list[str]:
        """Shards that vanished before they were completed."""
        gone = self.listing.gone
        return sorted(i for i in gone if i in self.rows and i not in self.completed) if gone else []

    def predates(self, shard_id: str) -> bool:
        """Return true if the listing may be older than a shard that it lacks.

        It is if it has an ancestor, or nobody for some hash keys: expired shards leave heirs.
        """
        listing, rows = self.listing, self.rows
        return bool(listing.holes) or descends(
            shard_id, listing.shards, lambda i: rows[i].parents if i in rows else ()
        )

    def drained(self) -> bool:
        """Return true if all that is listed is closed and was processed, and nothing else is left.

        So it is with a stream that was switched off; of an active one some shard is open.
        """
        if self.listing.asked_at == float("-inf"):
            return False
        done = self.completed | self._known_standings().passed
        listed = self.listing.shards.values()
        return not any(self.owned.values()) and all(s.closed and s.id in done for s in listed)

    def missing(self) -> list[str]:
        """Return the listed shards that ought to have a row and have none."""
        standings = self._known_standings()
        if standings.missing is None:
            rows, passed = self.rows, standings.passed
            standings.missing = [
                i for i in self.listing.shards if i not in rows and i not in passed
            ]
        return standings.missing

    def doubted(self) -> set[str]:
        """Return missing shards that may have been closed before a start at "latest".

        The worker that resolved the start knows that; the others wait for its rows.
        """
        header = self.header
        if header is None or not header.latest or header.settled or self.skipped is not None:
            return set()
        return {i for i in self.missing() if self.listing.shards[i].closed}

    def lost_in_use(self) -> list[str]:
        """Return the lost rows to create again; of completed ones only what lineage needs.

        One that is passed was completed after it was read here: a descendant has begun.
        """
        if not self.lost:
            return []
        completed = {i for i, row in self.lost.items() if row.completed}
        idle = completed - marks_in_use(self.listing.shards.values(), completed)
        passed = self._known_standings().passed - completed
        return sorted(self.lost.keys() - idle - passed)

    def beginnings(self, header: Header, shard_ids: Collection[str]) -> Mapping[str, Position]:
        """Return where to begin in shards that never had a row."""
        start = header.start if isinstance(header.start, AtTime) else TRIM_HORIZON
        listed = tuple(self.listing.shards.values())
        found: Mapping[str, Position]
        if header.settled:
            known = {i for i, row in self.rows.items() if row.begun or header.latest}
            known |= self._known_standings().passed
            found = begin_later(listed, known, LATEST if header.latest else start).positions
        elif header.latest:
            found = begin_at_time(listed, start, skipped=self.skipped, known=self.rows.keys())
        else:
            found = begin(listed, start).positions
        if header.latest:  # an ancestor that was not skipped: somebody deleted its row
            found = {**dict.fromkeys(shard_ids, start), **found}
        return {i: found[i] for i in shard_ids if i in found}

    def epoch_of_parents(self, row: LeaseRow) -> int:
        """Return the highest epoch that a parent of a row had, as far as its row is known."""
        return max((self.rows[p].epoch for p in row.parents if p in self.rows), default=0)

    def as_of_parents(self, parents: Iterable[str]) -> list[datetime | None]:
        """Return the `as_of` of each parent; None for one whose row is not known."""
        return [self.rows[p].as_of if p in self.rows else None for p in parents]

    def unneeded(self) -> list[LeaseRow]:
        """Return the completed rows that no listed shard descends from or is."""
        if not self.completed:
            return []
        in_use = marks_in_use(self.listing.known(self.rows), self.completed)
        return [self.rows[i] for i in sorted(self.completed - in_use)]

    def _known_standings(self) -> _Standings:
        if self._standings is None:
            self._standings = self._compute_standings()
        return self._standings

    def _compute_standings(self) -> _Standings:
        shards = self.listing.known(self.rows)
        passed = self._find_passed()
        gone = self.listing.gone
        if not self.goes_on_after_gaps:  # their children are held until somebody decides
            gone = gone.difference(self.gaps)
        lineage = trace(shards, drained=self.completed | passed, known=self.rows.keys(), gone=gone)
        rows, readable = self.rows, lineage.ids(State.READABLE)
        waits = (s.waits_for for s in lineage.standings.values() if s.waits_for)
        return _Standings(
            leasable={i for i in readable if i in rows and not rows[i].halted},
            without_row={i for i in readable if i not in rows},
            passed=passed,
            awaited=tuple(dict.fromkeys(i for ids in waits for i in ids if i in rows)),
            undiscovered=lineage.undiscovered,
            unproven=self._find_unproven(passed),
        )

    def _add_to_standings(self, row: LeaseRow) -> None:
        """Add a row that was not known, without computing everything anew where that is usual."""
        standings = self._standings
        if standings is None:
            return
        if row.shard_id in standings.without_row and not row.completed and not row.halted:
            standings.without_row.remove(row.shard_id)
            standings.leasable.add(row.shard_id)
            standings.missing = None
        else:
            self._standings = None

    def _disown(self, row: LeaseRow) -> None:
        owned = self.owned.get(row.lease_owner)
        if owned is not None:
            owned.discard(row.shard_id)
            if not owned:
                del self.owned[row.lease_owner]

    def _find_passed(self) -> frozenset[str]:
        """Return shards without a row that this app has passed: it never reads them.

        An ancestor of a begun shard was completed by then: rows are taken only after all of
        their ancestors. From a start at "latest", what was closed before it is skipped. The
        worker that resolved the start knows which shards those are; the others know it once all
        other rows were created, because these have none. An unknown row is no proof: reads lag.
        """
        listed, rows = self.listing.shards, self.rows.values()
        skipped = (self.skipped or frozenset()) - self.rows.keys()
        found = {i for i in listed if i in skipped}
        found.update(p for shard in listed.values() for p in shard.parents if p in skipped)
        frontier = [p for row in rows if row.begun for p in row.parents]
        if self._settled_at_latest:
            # A row at the beginning was made after its parents', and a lost one was there: those
            # were deleted by somebody.
            absent = self._absent - self.lost.keys()
            later = (row for row in rows if row.checkpoint != TRIM_HORIZON)
            frontier += [p for row in later for p in row.parents if p in absent]
        while frontier:
            shard_id = frontier.pop()
            if shard_id not in self.rows and shard_id not in found:
                found.add(shard_id)
                shard = listed.get(shard_id)
                frontier.extend(shard.parents if shard else ())
        return frozenset(found)

    def _find_unproven(self, passed: AbstractSet[str]) -> tuple[str, ...]:
        """Return the parents without a known row of an app that began at "latest"."""
        if not self._settled_at_latest:
            return ()
        parents = dict.fromkeys(p for row in self.rows.values() for p in row.parents)
        known = (self.rows, self.lost, passed, self._absent)
        return tuple(p for p in parents if not any(p in shards for shards in known))

    @property
    def _settled_at_latest(self) -> bool:
        header = self.header
        return header is not None and header.latest and header.settled
