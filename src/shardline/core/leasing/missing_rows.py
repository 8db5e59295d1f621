"""Rows that ought to be there: made for new shards, and made again when somebody deleted them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardline.core.leasing.instructions import Bump, Create
from shardline.core.leasing.rows import EPOCHS_PER_MOVE, Header, LeaseRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shardline.core.leasing.ledger import Ledger
    from shardline.core.leasing.peers import Peers


class MissingRows:
    """Decides which rows this worker makes, and under which epoch.

    A row's first epoch comes from the header's counter, moved *after* the row was found missing.
    So it lies above every epoch that a lost self of the row can have had, even if nobody
    remembers one.
    """

    def __init__(self, me: str, lease_seconds: float) -> None:
        self._me = me
        self._lease_seconds = lease_seconds
        self._missing_since: dict[str, float] = {}
        self._first_epoch = 0
        self._moved_at = float("-inf")
        self.doubtful: set[str] = set()
        """Mine before I was away, and not read since: somebody may know more of them than I do."""

    def moved(self, header: Header, now: float) -> None:
        """Tell that the counter was moved by a request sent at `now`."""
        self._first_epoch = header.moves * EPOCHS_PER_MOVE
        self._moved_at = now

    def make(
        self,
        header: Header,
        ledger: Ledger,
        peers: Peers,
        now: float,
    ) -> Iterator[Create | Bump]:
        """Return the rows to make now, or the request that must come before them."""
        lost = {i: ledger.lost[i] for i in ledger.lost_in_use()}
        missing = [i for i in ledger.missing() if i not in lost]
        since = self._missing_since
        self._missing_since = {i: since.get(i, now) for i in (*lost, *missing)}
        if not lost and not missing:
            if not header.settled and ledger.listed:
                yield Bump(settled=True)
            return
        due = self._due(lost, peers, now)
        if any(self._missing_since[i] > self._moved_at for i in due):
            yield Bump()
            return
        beginnings = ledger.beginnings(header, missing) if due else {}
        for shard_id in due:
            row = lost.get(shard_id)
            if row is not None:
                row = replace(row, lease_owner=None, given_to=None)
            elif shard_id in beginnings:
                row = LeaseRow(
                    header.app_name,
                    header.stream_name,
                    shard_id,
                    header.stream_created_at,
                    parents=ledger.listed[shard_id].parents,
                    checkpoint=beginnings[shard_id],
                    as_of=ledger.born_after(shard_id),
                )
            if row is not None:
                row = replace(row, epoch=self._first_epoch)
                yield Create(row, ledger.outdated.get(shard_id))

    def _due(self, lost: Mapping[str, LeaseRow], peers: Peers, now: float) -> list[str]:
        """First it is the holder's turn, who knows the position; then of who is on duty."""
        missing_since, long_ago = self._missing_since, now - 2 * self._lease_seconds
        due = dict.fromkeys(peers.on_duty_for(missing_since))
        due.update(dict.fromkeys(i for i, since in missing_since.items() if since <= long_ago))
        for shard_id, row in lost.items():
            holder = None if row.completed else row.lease_owner
            if holder == self._me and shard_id not in self.doubtful:
                due[shard_id] = None
            elif holder is None or peers.dead(holder):
                continue
            elif now - missing_since[shard_id] < self._lease_seconds:
                due.pop(shard_id, None)
        return list(due)
