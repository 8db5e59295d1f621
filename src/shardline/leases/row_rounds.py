"""The actor that reads rows and writes what the state asks for. It makes no call to the stream.

What is read: the header row about once a second, and the heartbeats of a small fleet; on every
renewal, and when the header's counter moved, all heartbeats, one page of rows in turn, and single
rows that matter now. So reads grow with the number of workers, never with the number of shards. The
whole table is read at the start, by a worker that lacks its share, and when much is free.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from shardline.core.leasing import events as e
from shardline.core.leasing.instructions import (
    ReadHeartbeats,
    ReadParkedKeys,
    ReadRows,
    ScanRows,
)
from shardline.core.leasing.parked_keys import inherited_keys
from shardline.core.leasing.rows import EPOCHS_PER_MOVE, Header
from shardline.core.positions import TRIM_HORIZON, AtTime, Latest, TrimHorizon
from shardline.errors import ConfigurationError, ShardlineError
from shardline.leases.port import Conflict, TableUnavailable
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shardline.core.leasing.described_stream import LatestStart
    from shardline.core.leasing.instructions import Instruction
    from shardline.core.leasing.rows import LeaseRow
    from shardline.leases.member import Member
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

_PAGE_ROWS: Final = 200
_SCAN_ROWS: Final = 1000
_DECISIONS_PER_ROUND: Final = 20
_FEW_PEERS: Final = 10
"""Up to so many others, their heartbeats are read in each round: a dead one is noticed sooner."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a worker found when it opened the table: whether its app is new, and where it begins."""

    table_created: bool
    """True if this worker created the table."""
    app_created: bool
    """True if this worker created the app's rows on this stream: nothing was read before."""
    start: TrimHorizon | AtTime | None = None
    """Where a new app begins; None for one that goes on at its checkpoints."""

    def __str__(self) -> str:
        if not self.app_created:
            return "going on at the checkpoints in the lease table"
        where = "the oldest record" if not isinstance(self.start, AtTime) else str(self.start.time)
        table = "a new lease table" if self.table_created else "a lease table without this app"
        return f"{table}: starting at {where}"


class RowRounds:
    """Reads rows, decides and writes, in rounds."""

    def __init__(
        self,
        member: Member,
        start: TrimHorizon | Latest | AtTime,
        *,
        expect_app: bool,
        time_resolution_seconds: int,
    ) -> None:
        self._member = member
        self._start = start
        self._expect_app = expect_app
        self._time_resolution_seconds = time_resolution_seconds
        self._table_created = False
        self._rows_at_join: tuple[LeaseRow, ...] | None = None
        self._moves_seen = -1
        self._read_at = self._scanned_at = float("-inf")
        self._next_after: str | None = None
        self._unowned = 0
        self.origin: Origin | None = None
        """What was found at the start; None until the app's header row is known."""

    def steps(self) -> Steps[None]:
        """Read and write again and again, until the member ends."""
        while self._member.error is None and not self._member.state.leaving:
            yield from self.round()
            yield Pause(self.rest_seconds())

    def round(self) -> Steps[None]:
        """Read, decide, write; what fails is tried again in the next round."""
        member = self._member
        try:
            yield from self.join()
            yield from self._read()
            if self.origin is not None:
                yield from self.act()
        except TableUnavailable as error:
            member.warn("could not read or write rows", error)
        except ShardlineError as error:
            member.error = error
        member.handle(e.TimePassed())

    def rest_seconds(self) -> float:
        """Return how long to wait until the next round: not past the moment when one is dead.

        A worker that has just joined and holds nothing looks more often: the first one creates the
        rows of a new app, and the others wait for them.
        """
        state, now = self._member.state, self._member.clock()
        suspect_in_seconds = state.peers.next_suspect_at(now) - now
        rest_seconds = state.times.tick_seconds
        if state.limits.is_new(now) and not state.mine:
            rest_seconds /= 8
        return min(rest_seconds, suspect_in_seconds)

    def act(self) -> Steps[None]:
        """Carry out the instructions of the state until there are none left."""
        member, state = self._member, self._member.state
        for _ in range(_DECISIONS_PER_ROUND):
            decided = member.handle(e.DecisionDue(member.today()))
            if not decided:
                break
            for instruction in decided:
                if not state.working(member.clock()):
                    return
                yield from self._carry_out(instruction)
        if state.unowned != self._unowned:
            self._unowned = state.unowned
            logger.warning(
                "shards of %s without an owner: %d; every worker is at its capacity, add workers",
                member.space[1],
                state.unowned,
            )

    # --- parts of a round -------------------------------------------------------------------

    def join(self) -> Steps[None]:
        """Prepare the table and read everything, once."""
        member = self._member
        if self._rows_at_join is not None:
            return
        if not member.prepared:
            self._table_created = yield member.table.prepare
            member.prepared = True
            member.wake("heartbeats")
        rows = yield from self._scan()
        beats = yield partial(member.table.read_heartbeats, *member.space)
        member.handle(e.HeartbeatsRead(beats))
        self._rows_at_join = rows

    def _read(self) -> Steps[None]:
        """Read what may have changed."""
        member, state = self._member, self._member.state
        member.handle(e.RoundBegun())
        yield from self._read_header()
        if state.header is None:
            return
        moved, self._moves_seen = state.header.moves != self._moves_seen, state.header.moves
        due = member.clock() - self._read_at >= state.times.renew_seconds
        due = due or moved or bool(state.peers.suspects(member.clock()))
        if due or 0 < len(state.peers.live()) <= _FEW_PEERS:
            beats = yield partial(member.table.read_heartbeats, *member.space)
            member.handle(e.HeartbeatsRead(beats))
        if not due:
            return
        yield from self._read_single_heartbeats(state.peers.suspects(member.clock()))
        if self._is_scan_due() and state.must_scan():
            yield from self._scan()
        else:
            after = self._next_after
            page = yield partial(member.table.scan_rows, *member.space, after, _PAGE_ROWS)
            self._next_after = page.next_after
            member.handle(e.RowsScanned(page.rows, after, page.next_after))
        yield from self.read_rows(tuple(state.wanted_rows()))
        self._read_at = member.clock()

    def read_rows(self, shard_ids: tuple[str, ...]) -> Steps[None]:
        """Read single rows consistently."""
        member = self._member
        if shard_ids:
            rows = yield partial(member.table.read_rows, *member.space, shard_ids)
            member.handle(e.RowsRead(shard_ids, rows))

    def _read_single_heartbeats(self, workers: Iterable[str]) -> Steps[None]:
        """Read heartbeats consistently: their workers are dead if they still stand still."""
        member = self._member
        for worker in workers:
            beat = yield partial(member.table.read_heartbeat, *member.space, worker)
            member.handle(e.HeartbeatRead(worker, beat))

    def _is_scan_due(self) -> bool:
        member = self._member
        return member.clock() - self._scanned_at >= member.state.times.renew_seconds

    def _scan(self) -> Steps[tuple[LeaseRow, ...]]:
        """Read all rows."""
        member = self._member
        rows: list[LeaseRow] = []
        after: str | None = None
        while True:
            page = yield partial(member.table.scan_rows, *member.space, after, _SCAN_ROWS)
            rows.extend(page.rows)
            after = page.next_after
            if after is None:
                self._scanned_at = member.clock()
                member.handle(e.RowsScanned(tuple(rows)))
                return tuple(rows)

    def _read_header(self) -> Steps[None]:
        """Read the header row; create or replace it where that is due."""
        member, state = self._member, self._member.state
        stored: Header | None = yield partial(member.table.read_header, *member.space)
        stream = state.stream
        if stream is None or not stream.active:
            return
        if stored is None and state.header is None and self._is_scan_due():
            # Perhaps no new app: rows were created since the join, and the header was deleted.
            self._rows_at_join = yield from self._scan()
        created_at, latest = stream.created_at, state.described.latest
        created = stored is None or stored.stream_created_at < created_at
        earlier = self._stream_in_use(stored)
        if earlier is not None and earlier < created_at and member.asks_for(earlier):
            return  # an earlier stream of the table, which may not be drained yet
        if created:
            if self._begins_at_latest(stored) and latest is None:
                member.wants_start = True
                member.wake("listings")
                return
            header = self._new_header(stored, created_at, latest)
            try:
                yield partial(member.table.create_header, header, stored)
            except Conflict as conflict:
                if not isinstance(conflict.current, Header):
                    raise TableUnavailable("the header row changes at this moment") from conflict
                header, created = conflict.current, False
            stored = header
        if self.origin is None and stored is not None:
            new = created and not self._rows_at_join
            start = stored.start if isinstance(stored.start, TrimHorizon | AtTime) else None
            self.origin = Origin(self._table_created, new, start if new else None)
            logger.info("%s joined %s: %s", state.owner, member.space[1], self.origin)
        if stored is not None:
            member.handle(e.HeaderRead(stored, _skipped(stored, latest, created=created)))

    def _stream_in_use(self, stored: Header | None) -> datetime | None:
        """Return when the stream was created that the app reads; by its rows if it has no header.

        None if it has no rows either. The rows of a later stream come after an earlier one was
        drained.
        """
        seen = stored or self._member.state.header
        if seen is not None:
            return seen.stream_created_at
        return max((row.stream_created_at for row in self._rows_at_join or ()), default=None)

    def _begins_at_latest(self, stored: Header | None) -> bool:
        """Return true if this worker is the first of its app, and that begins at "latest"."""
        known = stored or self._member.state.header or self._rows_at_join
        return not known and isinstance(self._start, Latest)

    def _new_header(
        self, stored: Header | None, created_at: object, latest: LatestStart | None
    ) -> Header:
        member, state = self._member, self._member.state
        stream, rows = state.stream, self._rows_at_join or ()
        if stream is None:
            raise AssertionError("the stream was not described yet")
        seen = stored or state.header
        generation = max((row.epoch // EPOCHS_PER_MOVE for row in rows), default=0)
        moves = max(generation, seen.moves if seen else 0)
        if stored is None and (seen is not None or rows):
            # Somebody deleted it. Others moved it on since it was read, but not that often.
            moves += EPOCHS_PER_MOVE
            if seen is not None and seen.stream_created_at == created_at:
                return replace(seen, moves=moves)
        header = Header(
            *member.space,
            stream.created_at,
            TRIM_HORIZON,
            moves=moves + 1,
            began_at=stream.service_time,
        )
        if stored is not None:
            # The app wants all of a stream that was made again: what expired by now is a gap.
            return replace(header, settled=True)
        if not rows and self._expect_app:
            raise ConfigurationError(
                f"app {member.space[0]!r} was expected on {member.space[1]}, but "
                f"{member.table.address} holds nothing of it: check the address of the lease table"
            )
        if not isinstance(self._start, Latest):
            return replace(header, start=self._start, settled=bool(rows))
        time = latest.time if latest is not None else stream.service_time
        if rows:  # the header was deleted: as early as anything that has not begun
            starts = (row.checkpoint.time for row in rows if isinstance(row.checkpoint, AtTime))
            time = min(starts, default=stream.created_at)
        floor = time.timestamp() - time.timestamp() % self._time_resolution_seconds
        start = AtTime(time.fromtimestamp(floor, time.tzinfo))
        return replace(header, start=start, settled=bool(rows), latest=True)

    def _carry_out(self, instruction: Instruction) -> Steps[None]:
        match instruction:
            case ReadRows(shard_ids):
                yield from self.read_rows(shard_ids)
            case ScanRows():
                yield from self._scan()
            case ReadHeartbeats(workers):
                yield from self._read_single_heartbeats(workers)
            case ReadParkedKeys(shards):
                yield from self._read_parked_keys(shards)
            case _:
                yield from self._member.write(instruction)

    def _read_parked_keys(
        self, shards: tuple[tuple[str, int, tuple[str, ...]], ...]
    ) -> Steps[None]:
        """Read the parked keys of shards before work starts; a child inherits its parents'."""
        member = self._member
        ids = tuple(
            dict.fromkeys(i for shard_id, _, parents in shards for i in (shard_id, *parents))
        )
        rows = yield partial(member.table.read_parked_keys, *member.space, ids)
        for shard_id, epoch, parents in shards:
            keys = {row.key for row in rows if row.shard_id == shard_id}
            try:
                for new in inherited_keys(shard_id, parents, epoch, rows):
                    yield partial(member.table.park_key, new, member.state.owner)
                    keys.add(new.key)
            except Conflict:
                continue  # the lease is gone: its row says so when it is read next
            member.handle(e.ParkedKeysRead(shard_id, epoch, frozenset(keys)))


def _skipped(header: Header, latest: LatestStart | None, *, created: bool) -> frozenset[str] | None:
    """Return the shards closed before the start, if what this worker resolved proves it."""
    if latest is None or not header.latest or not isinstance(header.start, AtTime):
        return None
    return latest.closed if created or latest.time <= header.start.time else None
