"""Rows that ought to be there: created for new shards, and again when somebody deleted them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardline.core.gaps import first_as_of, inherited, later_as_of
from shardline.core.leasing.instructions import Bump, Create
from shardline.core.leasing.rows import EPOCHS_PER_MOVE, Header, LeaseRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime, timedelta

    from shardline.core.leasing.ledger import Ledger
    from shardline.core.leasing.peers import Peers
    from shardline.core.positions import Position


class MissingRows:
    """Decides which rows this worker creates, and under which epoch.

    A row's first epoch comes from the header's counter, which this worker moved last, and did not
    use yet. So it lies above every epoch that an earlier row of the shard can have had, even if
    nobody remembers one.
    """

    def __init__(self, me: str, lease_seconds: float) -> None:
        self._me = me
        self._lease_seconds = lease_seconds
        self._missing_since: dict[str, float] = {}
        self._unused_move: int | None = None
        self._moved_at = float("-inf")
        self.doubtful: set[str] = set()
        """Held before this worker lapsed, and not taken anew: others may know them better."""

    def moved(self, header: Header, now: float) -> None:
        """Record that this worker moved the counter, by a request sent at `now`."""
        self._unused_move, self._moved_at = header.moves, now

    def create(
        self,
        header: Header,
        ledger: Ledger,
        peers: Peers,
        now: float,
        *,
        service_time: datetime,
        retention: timedelta,
        heirs_of: Collection[str] = (),
    ) -> Iterator[Create | Bump]:
        """Return the rows to create now, or the request that must come before them.

        `heirs_of` are shards that this worker works on or completed: it creates the rows of
        their children, because it is the first to know of them.
        """
        if not ledger.lost and not ledger.missing():  # as it usually is
            self._missing_since = {}
            if not header.settled and ledger.listing.shards:
                yield Bump(settled=True)
            return
        lost = {i: ledger.lost[i] for i in ledger.lost_in_use()}
        unproven = set(ledger.unproven)
        missing = [i for i in ledger.missing() if i not in lost and i not in unproven]
        held = _held(header, ledger, missing, lost)
        doubted, since = ledger.doubted(), self._missing_since
        waiting = not held.union(doubted).issuperset(missing)  # as long as rows are being created
        self._missing_since = {
            i: now if waiting and i in doubted else since.get(i, now) for i in (*lost, *missing)
        }
        if not lost and not missing:
            if not header.settled and ledger.listing.shards:
                yield Bump(settled=True)
            return
        long_ago = now - 2 * self._lease_seconds
        due = [
            i for i in self._due(ledger, lost, peers, heirs_of, now)
            if i not in held and (i not in doubted or self._missing_since[i] <= long_ago)
        ]  # fmt: skip
        beginnings = ledger.beginnings(header, missing) if due else {}
        rows: list[LeaseRow] = []
        for shard_id in due:
            row = lost.get(shard_id)
            if row is not None:
                rows.append(replace(row, lease_owner=None, given_to=None))
            elif shard_id in beginnings:
                parents = ledger.listing.shards[shard_id].parents
                as_of = _as_of(header, beginnings[shard_id], service_time, retention)
                row = LeaseRow(
                    header.app_name,
                    header.stream_name,
                    shard_id,
                    header.stream_created_at,
                    parents=parents,
                    checkpoint=beginnings[shard_id],
                    as_of=inherited(as_of, ledger.as_of_parents(parents)),
                )
                rows.append(row)
        if not rows:
            return
        # Others may have created the same rows, and somebody deleted them: a move is good for one
        # round, and if it was the last; the first rows of an app need one since they are missing.
        missed_at = max(self._missing_since[row.shard_id] for row in rows)
        is_good = self._unused_move == header.moves or not header.settled
        if self._unused_move is None or not is_good or missed_at > self._moved_at:
            yield Bump()
            return
        epoch = self._unused_move * EPOCHS_PER_MOVE
        if header.settled:
            self._unused_move = None
        yield from (Create(replace(r, epoch=epoch), ledger.outdated.get(r.shard_id)) for r in rows)

    def _due(
        self,
        ledger: Ledger,
        lost: Mapping[str, LeaseRow],
        peers: Peers,
        heirs_of: Collection[str],
        now: float,
    ) -> list[str]:
        """Return what to create: the holder first, who knows the position; then who is on duty."""
        missing_since, long_ago = self._missing_since, now - 2 * self._lease_seconds
        due = dict.fromkeys(peers.on_duty_for(missing_since))
        due.update(dict.fromkeys(i for i, since in missing_since.items() if since <= long_ago))
        for shard_id in missing_since:
            shard = ledger.listing.shards.get(shard_id)
            if shard is not None and any(parent in heirs_of for parent in shard.parents):
                due[shard_id] = None
            elif shard_id not in lost and self._may_be_deleted(shard_id, ledger, peers, now):
                due.pop(shard_id, None)
        for shard_id, row in lost.items():
            if row.completed:
                continue
            if row.lease_owner == self._me and shard_id not in self.doubtful:
                due[shard_id] = None
            elif not peers.all_dead() and now - missing_since[shard_id] < self._lease_seconds:
                due.pop(shard_id, None)  # whoever had it when it was read, another may have it now
        return list(due)

    def _may_be_deleted(self, shard_id: str, ledger: Ledger, peers: Peers, now: float) -> bool:
        """Return true if somebody may hold the shard, who knows the position: its row is gone.

        A row that is not deleted is missing only for a new app or stream, or while the parents
        are read.
        """
        header, rows = ledger.header, ledger.rows
        if header is None or not header.settled or peers.all_dead():
            return False
        if shard_id in ledger.outdated:
            return False
        parents = ledger.listing.shards[shard_id].parents
        is_new = any(p in rows and p not in ledger.completed for p in parents)
        return not is_new and now - self._missing_since[shard_id] < self._lease_seconds


def _held(
    header: Header, ledger: Ledger, missing: Collection[str], lost: Collection[str]
) -> set[str]:
    """Return shards that wait for a parent's row, or for one that was not listed here yet.

    From a start at "latest" their parents would be taken for skipped once they had a row.
    """
    if not header.latest:
        return set()
    known = (ledger.rows, ledger.listing.shards, ledger.listing.gone)

    def comes_first(parent: str) -> bool:
        return parent in absent or not any(parent in shards for shards in known)

    absent, listed = {*missing, *lost}, ledger.listing.shards
    return {i for i in missing if any(map(comes_first, listed[i].parents))}


def _as_of(
    header: Header, position: Position, service_time: datetime, retention: timedelta
) -> datetime:
    if header.settled:
        own = later_as_of(known_at=service_time, retention=retention)
    else:
        began_at = header.began_at or service_time
        own = first_as_of(position, known_at=began_at, retention=retention)
    return max(own, header.stream_created_at)  # nothing arrived before there was a stream
