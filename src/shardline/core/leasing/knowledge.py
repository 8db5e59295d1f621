"""How up to date a worker's knowledge of the rows is, and which rows it reads next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardline.core.leasing.instructions import ReadHeartbeats, ReadRows, ScanRows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from shardline.core.leasing.rows import LeaseRow

_SINGLE_ROWS: Final = 300
"""More rows than this are read by scanning the table."""
_REGULAR_ROWS: Final = 100
_UNPROVEN_ROWS: Final = 1000
_READS_PER_ROUND: Final = 3


class RowKnowledge:
    """Which rows were read in this round, and which must be read before anything is written."""

    def __init__(self) -> None:
        self.unverified: set[str] = set()
        """Written without an answer: to be read before they are written again."""
        self.fresh: set[str] = set()
        """Rows that were read or written in this round: only those are worth a take."""
        self.confirmed: set[str | None] = set()
        """Workers whose heartbeat was read, consistently, after all these rows were."""
        self.moved = False
        """True if the others should read again: a lease was released or a shard completed."""
        self._missed: set[str] = set()
        self._rounds = 0
        self._reads = 0

    def begin_round(self) -> None:
        """Record that a round begins: what was read before may be out of date."""
        self.fresh.clear()
        self.confirmed.clear()
        self._rounds += 1
        self._reads = 0

    def scanned(
        self, found: set[str], known: Iterable[str], after: str | None, next_after: str | None
    ) -> None:
        """Record a page of rows: what is known and lies within, but is not in it, is read."""
        self.fresh |= found
        self.confirmed.clear()
        self._missed = {
            i
            for i in known
            if i not in found
            and (after is None or i > after)
            and (next_after is None or i <= next_after)
        }

    def read(self, asked: Iterable[str]) -> None:
        """Record a consistent read of rows."""
        asked = set(asked)
        self.fresh |= asked
        self.confirmed.clear()
        self._missed -= asked
        self.unverified -= asked

    def refused(self, current: LeaseRow) -> None:
        """Record a row that was found in place of the one that a write expected."""
        self.fresh.add(current.shard_id)
        self.confirmed.discard(current.lease_owner)

    def too_many(self, missing: Collection[str]) -> bool:
        """Return true if so many rows are better read by scanning."""
        return len(missing) > _SINGLE_ROWS

    def wanted(
        self,
        *,
        asked: Iterable[str],
        unproven: Collection[str],
        missing: Collection[str],
        departed: Collection[str],
        mine: Collection[str],
        awaited: Collection[str],
    ) -> list[str]:
        """Return the single rows to read in this round; each kind has room of its own."""
        kinds = (
            sorted(self.unverified),
            list(asked),
            list(unproven)[:_UNPROVEN_ROWS],
            [] if self.too_many(missing) else list(missing),
            [] if self.too_many(departed) else list(departed),
            sorted(self._missed)[:_SINGLE_ROWS],
            self._in_turn(mine),
            self._in_turn(awaited),
        )
        return list(dict.fromkeys(i for ids in kinds for i in ids))

    def read_before_taking(self, free: Collection[str]) -> ReadRows | ScanRows | None:
        """Return the read that must come before any take; None if all that is free was read.

        What is free decides what each worker takes, so all of it is read, however much it is.
        """
        stale = [i for i in free if i not in self.fresh]
        if not stale or self._reads >= _READS_PER_ROUND:
            return None
        self._reads += 1
        return ReadRows(tuple(stale)) if len(stale) <= _SINGLE_ROWS else ScanRows()

    def heartbeats_before_taking(self, owners: Iterable[str | None]) -> ReadHeartbeats | None:
        """Return the reads that must come after those of rows and before any take.

        An owner that was dead may have renewed and taken its lease anew since: then its row has
        changed, and by that the take is refused, or its heartbeat has.
        """
        stale = {owner for owner in owners if owner is not None} - self.confirmed
        return ReadHeartbeats(tuple(sorted(filter(None, stale)))) if stale else None

    def _in_turn(self, shard_ids: Collection[str]) -> Iterator[str]:
        """Return some of these, others in every round."""
        ordered = sorted(shard_ids)
        first = self._rounds * _REGULAR_ROWS % max(1, len(ordered))
        yield from (ordered[first:] + ordered[:first])[:_REGULAR_ROWS]
