"""What one worker knows of the lease rows and of the stream's shards.

Rows are seen late and in pieces; every write is conditional, so acting on an old row costs a
refused write and nothing else. What was seen never goes back: rows are ranked by their version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.lineage import State, marks_in_use, trace, uncovered
from shardline.core.positions import TRIM_HORIZON, AtTime
from shardline.core.starts import begin, begin_later

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shardline.core.leasing.rows import Header, LeaseRow
    from shardline.core.positions import Position
    from shardline.core.shards import HashRange, Shard


class Ledger:
    """Rows by shard and by owner, and the lineage that follows from them."""

    def __init__(self, *, goes_on_after_gaps: bool) -> None:
        self.stream_created_at: datetime | None = None
        self.rows: dict[str, LeaseRow] = {}
        self.owned: dict[str | None, set[str]] = {}
        """The unfinished shards of each owner; those of nobody under None."""
        self.completed: set[str] = set()
        self.lost: dict[str, LeaseRow] = {}
        """Rows that were seen and then were gone: somebody deleted them."""
        self.outdated: dict[str, LeaseRow] = {}
        """Rows of an earlier stream under this name: to be replaced."""
        self.listed: dict[str, Shard] = {}
        self.holes: tuple[HashRange, ...] = ()
        """The parts of the hash space that the listing does not cover: list again."""
        self.gone: set[str] = set()
        """Shards of which the service said, one by one, that it has them no more."""
        self._goes_on_after_gaps = goes_on_after_gaps
        # What follows from all that; made anew when the lineage may have changed.
        self._traced = False
        self._leasable: set[str] = set()
        self._without_row: set[str] = set()
        self._done_above: frozenset[str] = frozenset()
        self._awaited: tuple[str, ...] = ()
        self._undiscovered: tuple[str, ...] = ()
        self._missing: list[str] | None = None  # made anew when rows come or go

    # --- what was seen ----------------------------------------------------------------------

    def belongs_to(self, stream_created_at: datetime) -> None:
        """Tell which stream has the name now. Rows of an earlier one are no rows of it."""
        if stream_created_at != self.stream_created_at:
            seen = [*self.rows.values(), *self.outdated.values()]
            self.stream_created_at = stream_created_at
            self.rows, self.owned, self.completed, self.lost = {}, {}, set(), {}
            self.listed, self.gone, self._traced = {}, set(), False
            self.outdated = {}
            for row in seen:
                self.remember(row)

    def remember(self, row: LeaseRow) -> None:
        """Take a row as seen or written, unless a later state of it is known."""
        shard_id = row.shard_id
        if row.stream_created_at != self.stream_created_at:
            # A later stream's row is not mine to judge: the header will tell of it.
            if self.stream_created_at and row.stream_created_at < self.stream_created_at:
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
            self._missing = None
            if shard_id in self._without_row and not row.completed:  # as most new rows
                self._without_row.remove(shard_id)
                self._leasable.add(shard_id)
            else:
                self._traced = False
        elif known.completed != row.completed or (
            known.begun != row.begun and any(p not in self.rows for p in row.parents)
        ):
            self._traced = False

    def missed(self, shard_id: str) -> None:
        """Tell that a consistent read found no such row."""
        row = self.rows.pop(shard_id, None)
        if row is not None:
            self.lost[shard_id] = row
            self.completed.discard(shard_id)
            self._disown(row)
            self._traced = False

    def deleted(self, shard_id: str) -> None:
        """Tell that a row was deleted on purpose."""
        self.missed(shard_id)
        self.outdated.pop(shard_id, None)
        self.lost.pop(shard_id, None)

    def list_shards(self, shards: Iterable[Shard]) -> None:
        """Tell what the service lists now."""
        listed = {shard.id: shard for shard in shards}
        if listed != self.listed:
            self.listed = listed
            self.holes = uncovered(listed.values())
            self.gone.difference_update(listed)
            self._traced = False

    def not_found(self, shard_id: str) -> None:
        """Tell that the service does not know a shard any more."""
        self.gone.add(shard_id)
        self._traced = False

    # --- what follows -----------------------------------------------------------------------

    @property
    def leasable(self) -> AbstractSet[str]:
        """The shards that may be worked on now and have a row."""
        self._trace()
        return self._leasable

    @property
    def awaited(self) -> Collection[str]:
        """The shards with a row that others wait for."""
        self._trace()
        return self._awaited

    @property
    def undiscovered(self) -> Collection[str]:
        """The shards that have a row or a child and are not listed: ask the service for them."""
        self._trace()
        return self._undiscovered

    @property
    def gaps(self) -> list[str]:
        """Shards that vanished before they were finished."""
        return sorted(i for i in self.gone if i in self.rows and i not in self.completed)

    def missing(self) -> list[str]:
        """Return the listed shards that ought to have a row and have none."""
        self._trace()
        if self._missing is None:
            rows, done = self.rows, self._done_above
            self._missing = [i for i in self.listed if i not in rows and i not in done]
        return self._missing

    def lost_in_use(self) -> list[str]:
        """Return the lost rows to make again; of finished ones only what lineage still needs."""
        if not self.lost:
            return []
        finished = {i for i, row in self.lost.items() if row.completed}
        idle = finished - marks_in_use(self.listed.values(), finished)
        return sorted(self.lost.keys() - idle)

    def beginnings(self, header: Header, shard_ids: Collection[str]) -> Mapping[str, Position]:
        """Tell where to begin in shards that never had a row."""
        start = header.start if isinstance(header.start, AtTime) else TRIM_HORIZON
        listed = tuple(self.listed.values())
        if header.settled:
            begun = {i for i, row in self.rows.items() if row.begun}
            found = begin_later(listed, begun | self._done_above, start).positions
        else:
            found = begin(listed, start).positions
        return {i: found[i] for i in shard_ids if i in found}

    def born_after(self, shard_id: str) -> datetime | None:
        """Return a time before which a new shard held nothing, if its parents vouch for one.

        Its records came after everything in its parents, read or not. Without that, a child that
        waits for longer than records are kept would lose some in silence.
        """
        rows = [self.rows.get(parent) for parent in self.listed[shard_id].parents]
        times = [row.as_of for row in rows if row is not None and row.as_of is not None]
        return min(times) if times and len(times) == len(rows) else None

    def unneeded(self) -> list[LeaseRow]:
        """Return the finished rows that no listed shard descends from or is."""
        if len(self.completed) == 0:
            return []
        in_use = marks_in_use(self.listed.values(), self.completed)
        return [self.rows[i] for i in sorted(self.completed - in_use)]

    def contradictions(self) -> list[str]:
        """Say in which ways what is known here contradicts itself: in none."""
        indexed = {i: owner for owner, ids in self.owned.items() for i in ids}
        unfinished = {i: r.lease_owner for i, r in self.rows.items() if not r.completed}
        streams = {row.stream_created_at for row in self.rows.values()} - {self.stream_created_at}
        found = {
            "the index of owners differs from the rows": indexed != unfinished,
            "completed, but not by its row": self.completed != self.rows.keys() - unfinished.keys(),
            "a finished shard is leasable": bool(self.leasable & self.completed),
            "rows of another stream are mixed in": bool(streams),
        }
        return [problem for problem, so in found.items() if so]

    def _trace(self) -> None:
        """Keep what follows from the lineage, not the standing of every shard."""
        if self._traced:
            return
        self._traced = True
        self._done_above = self._find_done_above()
        gone = self.gone
        if not self._goes_on_after_gaps:  # their children are held until somebody decides
            gone = gone.difference(self.gaps)
        lineage = trace(
            self.listed.values(),
            drained=self.completed | self._done_above,
            known=self.rows.keys(),
            gone=gone,
        )
        rows, readable = self.rows, lineage.ids(State.READABLE)
        self._leasable = {i for i in readable if i in rows}
        self._without_row = {i for i in readable if i not in rows}
        waits = (s.waits_for for s in lineage.standings.values() if s.waits_for)
        self._awaited = tuple(dict.fromkeys(i for ids in waits for i in ids if i in rows))
        self._undiscovered = lineage.undiscovered
        self._missing = None

    def _disown(self, row: LeaseRow) -> None:
        owned = self.owned.get(row.lease_owner)
        if owned is not None:
            owned.discard(row.shard_id)
            if not owned:
                del self.owned[row.lease_owner]

    def _find_done_above(self) -> frozenset[str]:
        """Find shards without a row whose descendant was begun: they were done by then.

        Rows are taken only when all ancestors are done. So a finished parent whose row was
        deleted is not read again under its children.
        """
        found = set[str]()
        frontier = [p for row in self.rows.values() if row.begun for p in row.parents]
        while frontier:
            shard_id = frontier.pop()
            if shard_id not in self.rows and shard_id not in found:
                found.add(shard_id)
                shard = self.listed.get(shard_id)
                frontier.extend(shard.parents if shard else ())
        return frozenset(found)
