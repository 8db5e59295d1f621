"""Holes that were found in an earlier build, put back in: see the case each one names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardline.consumer import runner
from shardline.core.gaps import first_as_of, later_as_of
from shardline.core.leasing import handover, missing_rows
from shardline.core.leasing.described_stream import DescribedStream
from shardline.core.leasing.instructions import Create
from shardline.core.leasing.ledger import Ledger
from shardline.core.leasing.missing_rows import MissingRows
from shardline.core.leasing.rows import EPOCHS_PER_MOVE
from shardline.errors import ConfigurationError
from shardline.leases.listings import Listings
from shardline.leases.member import Member
from shardline.leases.port import TableUnavailable
from shardline.leases.row_rounds import RowRounds
from shardline.leases.table_streams import TableStreams
from tests.simulation.bug import BUGS, Bug, bug

_held = missing_rows._held
_create, _describe, _round = MissingRows.create, Listings._describe, RowRounds.round
_due, _lost_in_use, _new_header = MissingRows._due, Ledger.lost_in_use, RowRounds._new_header


# --- gaps -----------------------------------------------------------------------------------


@bug("X-01", "a place has no time before its first page", MissingRows, "create")
def _(self: Any, *args: Any, **named: Any) -> Any:
    for made in _create(self, *args, **named):
        if isinstance(made, Create):
            yield replace(made, new=replace(made.new, as_of=None))
        else:
            yield made


BUGS[-1] = replace(
    BUGS[-1],
    changes=(*BUGS[-1].changes, (DescribedStream, "as_of", lambda _, row, *__: row.as_of)),
)


@bug("X-15", "a child that waits does not move with its parent", DescribedStream, "as_of")
def _(self: Any, row: Any, parents: Any, now: float) -> Any:
    return row.as_of


@bug("X-24", "a young stream has records that are older than it", missing_rows, "_as_of")
def _(header: Any, position: Any, service_time: Any, retention: Any) -> Any:
    if header.settled:
        return later_as_of(known_at=service_time, retention=retention)
    return first_as_of(position, known_at=service_time, retention=retention)


@bug("X-11", "what is not found is gone, however young it is", DescribedStream, "may_be_gone")
def _(self: Any, row: Any, now: float) -> bool:
    return True


@bug("X-11", "a listing that is behind proves that a shard is gone", Ledger, "predates")
def _(self: Any, shard_id: str) -> bool:
    return False


# --- rows that are missing ------------------------------------------------------------------


@bug("L-04", "a grandchild gets its row before its parent does", missing_rows, "_held")
def _(header: Any, ledger: Any, missing: Any, lost: Any) -> set[str]:
    return _held(header, ledger, missing, lost) if header.settled else set()


@bug("R-06", "a worker that joins makes a deleted row at once", MissingRows, "_may_be_deleted")
def _(self: Any, *args: Any) -> bool:
    return False


@bug("R-06", "a worker that lapsed makes its deleted row at once", MissingRows, "_due")
def _(self: Any, *args: Any) -> list[str]:
    self.doubtful.clear()
    return _due(self, *args)


@bug("R-06", "a deleted row is made at once if its last known owner is dead", MissingRows, "_due")
def _(self: Any, ledger: Any, lost: Any, peers: Any, heirs_of: Any, now: float) -> list[str]:
    free = [i for i, row in lost.items() if not row.lease_owner or peers.dead(row.lease_owner)]
    return [*dict.fromkeys((*_due(self, ledger, lost, peers, heirs_of, now), *free))]


@bug("L-16", "a deleted row is made again though a descendant has begun", Ledger, "lost_in_use")
def _(self: Any) -> list[str]:
    return sorted({*_lost_in_use(self), *(i for i, row in self.lost.items() if not row.completed)})


@bug("W-14", "a header that is made again counts on by one", RowRounds, "_new_header")
def _(self: Any, stored: Any, *args: Any) -> Any:
    header = _new_header(self, stored, *args)
    made_again = stored is None and header.moves > EPOCHS_PER_MOVE
    return replace(header, moves=header.moves % EPOCHS_PER_MOVE + 1) if made_again else header


@bug("X-06", "without a header the newest stream of a table is begun", RowRounds, "_stream_in_use")
def _(self: Any, stored: Any) -> Any:
    return stored.stream_created_at if stored is not None else None


# --- stopped, though nothing is lost --------------------------------------------------------


@bug("X-17", "a worker ends when the table is away for longer than a lease", RowRounds, "round")
def _(self: Any) -> Any:
    member = self._member
    had = bool(member.state.holdings.by_shard)
    yield from _round(self)
    if had and not member.state.working(member.clock()):
        member.error = member.error or TableUnavailable("away for longer than a lease")


@bug("X-20", "rows are made for what was closed before a start at latest", Ledger, "_find_passed")
def _(self: Any) -> frozenset[str]:
    return frozenset()


@bug("X-32", "a stream that is being created ends the worker", Listings, "_describe")
def _(self: Any) -> Any:
    yield from _describe(self)
    if self.waiting_for:
        self._member.error = ConfigurationError(self.waiting_for)


@bug("X-36", "a lost lease is not told to the consumer", runner, "_call_lease_lost")
def _(consumer: Any, shard_id: str) -> Any:
    return iter(())


# --- streams of a table ---------------------------------------------------------------------


@bug("X-06", "the stream before is left as soon as there is another one", Member, "asks_for")
def _(self: Any, created_at: Any) -> bool:
    return False


@bug("X-06", "a stream is left when it is closed, though it is not processed", Ledger, "drained")
def _(self: Any) -> bool:
    listed = self.listing.shards.values()
    return self.listing.asked_at > float("-inf") and all(shard.closed for shard in listed)


@bug("X-06", "the next stream of a table is never looked for", TableStreams, "due")
def _(self: Any) -> bool:
    return False


BUGS.append(
    Bug(
        "X-25",
        "a worker asks for any number of leases at once",
        ((handover, "_MOST_ASKS", 10_000),),
    )
)
