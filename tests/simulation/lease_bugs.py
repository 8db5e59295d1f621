"""Bugs of real systems in the place of the right lease code: see the case each one names."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

from shardline.consumer.messages import ShardProcessed
from shardline.consumer.pipeline import Pipeline
from shardline.consumer.runner import Runner
from shardline.consumer.worker import StreamWork, Worker
from shardline.core.leasing import events as e
from shardline.core.leasing import free_leases, handover, ledger, rows, saves, state
from shardline.core.leasing.free_leases import FreeLeases
from shardline.core.leasing.holdings import Holdings, Stage
from shardline.core.leasing.instructions import (
    Create,
    Delete,
    Release,
    Renew,
    Save,
    Take,
)
from shardline.core.leasing.knowledge import RowKnowledge
from shardline.core.leasing.ledger import Ledger
from shardline.core.leasing.listed_shards import ListedShards
from shardline.core.leasing.missing_rows import MissingRows
from shardline.core.leasing.own_heartbeat import OwnHeartbeat
from shardline.core.leasing.peers import Peers
from shardline.core.leasing.saves import Saves
from shardline.core.leasing.shares import Level, level_of
from shardline.core.leasing.state import LeaseState
from shardline.core.leasing.worker_calls import WorkerCalls
from shardline.core.lineage import trace
from shardline.core.positions import TRIM_HORIZON, After
from shardline.leases.coordinator import Coordinator
from shardline.leases.listings import Listings
from shardline.leases.port import Conflict
from shardline.leases.row_rounds import RowRounds
from shardline.services.steps import Pause
from tests.simulation.bug import BUGS, bug
from tests.simulation.clockwork import EPOCH
from tests.twins import lease_table as memory

_init: Any = Coordinator.__init__
_handle = LeaseState.handle
_refused, _decide, _done = LeaseState._write_refused, LeaseState._decide, LeaseState._write_done
_due, _calls, _taken = Saves.due, WorkerCalls.due, rows.taken
_remember, _mine, _loads, _create = (
    Ledger.remember,
    FreeLeases.mine,
    FreeLeases.loads,
    MissingRows.create,
)
_describe = Listings._describe
_take_in, _read_steps = Pipeline._take_in, Pipeline.read_steps


# --- workers and leases ---------------------------------------------------------------------


@bug("W-01", "a lost lease is not told: work goes on under it", StreamWork, "stop")
def _(self: Any, shard_id: str, epoch: int) -> None:
    return


@bug("W-02", "a write asks only whether there is a row", memory, "_require_same")
def _(stored: Any, expected: Any) -> None:
    if (stored is None) != (expected is None):
        raise Conflict(stored)


@bug("W-02", "a take keeps the epoch", state, "taken")
def _(row: Any, owner: str, *_: Any, **__: Any) -> Any:
    return replace(row, lease_owner=owner, lease_count=row.lease_count + 1, given_to=None)


@bug("W-03", "a worker is its name: incarnations look the same", Coordinator, "__init__")
def _(self: Any, *args: Any, **named: Any) -> None:
    _init(self, *args, **{**named, "attempt": "1"})


@bug("W-03", "names are small numbers that collide", Coordinator, "__init__")
def _(self: Any, *args: Any, **named: Any) -> None:
    name = str(zlib.crc32(args[4].encode()) % 2)
    _init(self, *args[:4], name, **{**named, "attempt": "1"})


@bug("W-04", "a renewal without an answer is never read again", LeaseState, "_write_refused")
def _(self: Any, event: Any, now: float) -> Any:
    return () if isinstance(event.instruction, Renew) else _refused(self, event, now)


@bug("W-05", "a write without an answer is believed to have happened", LeaseState, "handle")
def _(self: Any, event: Any, now: float) -> Any:
    if isinstance(event, e.WriteUnanswered) and isinstance(
        event.instruction, Take | Save | Release
    ):
        event = e.WriteDone(event.instruction, now)
    return _handle(self, event, now)


@bug("W-06", "a worker that cannot renew goes on", OwnHeartbeat, "valid_until")
def _(self: Any) -> float:
    return float("inf") if self.renewed_at > float("-inf") else float("-inf")


@bug("W-06", "a worker that was away believes what it held", LeaseState, "_notice_lapse")
def _(self: Any, now: float) -> Any:
    return iter(())


@bug("W-07", "expiry is judged by a clock that is fast", Peers, "suspects")
def _(self: Any, now: float) -> list[str]:
    for seen in self._observed.values():
        seen.dead = seen.dead or now - seen.since >= self._lease_seconds / 4
    return []


BUGS[-1] = replace(
    BUGS[-1],
    changes=(*BUGS[-1].changes, (RowKnowledge, "heartbeats_before_taking", lambda *_: None)),
)


@bug("W-08", "mine in memory stays mine, though the table says nobody's", Ledger, "remember")
def _(self: Any, row: Any, now: float) -> None:
    known = self.rows.get(row.shard_id)
    mine = known is not None and known.lease_owner is not None and not known.completed
    if not mine or row.lease_owner is not None or row.completed:
        _remember(self, row, now)


@bug("W-09", "only a leader deals, and a dead one stays leader", FreeLeases, "mine")
def _(self: Any, ledger: Any, peers: Any, now: float, **named: Any) -> list[str]:
    leads = self._me <= min(peers._observed, default="~")
    return _mine(self, ledger, peers, now, **named) if leads else []


@bug("W-10", "the heart beats on when the runner has died", Worker, "_replace_runner")
def _(self: Any, what: str) -> Any:
    yield Pause(0.2)


@bug("X-30", "a consumer that hangs keeps its lease for ever", Runner, "_abandon")
def _(self: Any, *_: Any) -> None:
    return


@bug("W-11", "a lease that was given waits for its asker for ever", FreeLeases, "mine")
def _(self: Any, ledger: Any, peers: Any, now: float, **named: Any) -> list[str]:
    mine = _mine(self, ledger, peers, now, **named)
    return [i for i in mine if ledger.rows[i].given_to in (None, self._me)]


@bug("W-12", "a worker that leaves takes leases", LeaseState, "_decide")
def _(self: Any, now: float, today: Any) -> Any:
    left, self.leaving = self.leaving, False
    decided = list(_decide(self, now, today))
    self.leaving = left
    return decided


@bug("W-12", "leaving is not recorded: leases are dealt to who has left", Peers, "live")
def _(self: Any) -> Any:
    return [s.beat for w, s in sorted(self._observed.items()) if s.beat and not self.dead(w)]


BUGS[-1] = replace(
    BUGS[-1], changes=(*BUGS[-1].changes, (OwnHeartbeat, "farewell", lambda _: None))
)


@bug("W-13", "what nobody has room for is not said", free_leases, "level_of")
def _(total: int, loads: Any) -> Level:
    return Level(level_of(total, loads).level, 0)


@bug("W-13", "finished shards count as held", FreeLeases, "loads")
def _(self: Any, ledger: Any, peers: Any, coming: Any = None) -> Any:
    coming = {**(coming or {}), self._me: (coming or {}).get(self._me, 0) + len(ledger.completed)}
    return _loads(self, ledger, peers, coming)


@bug("W-14", "a deleted row is not made again", MissingRows, "create")
def _(self: Any, header: Any, ledger: Any, *args: Any, **named: Any) -> Any:
    known = self.__dict__.setdefault("_known", set())
    known.update(ledger.rows)
    made = _create(self, header, ledger, *args, **named)
    return (i for i in made if not isinstance(i, Create) or i.new.shard_id not in known)


@bug("W-14", "a row that is made again begins with its first epoch", MissingRows, "create")
def _(self: Any, *args: Any, **named: Any) -> Any:
    for made in _create(self, *args, **named):
        yield replace(made, new=replace(made.new, epoch=1)) if isinstance(made, Create) else made


@bug("W-15", "leases of nobody are passed over", free_leases, "free_shards")
def _(ledger: Any, peers: Any, me: str) -> set[str]:
    return {i for o, ids in ledger.owned.items() if o and o != me and peers.dead(o) for i in ids}


@bug("W-16", "two streams share their rows", Coordinator, "__init__")
def _(self: Any, *args: Any, **named: Any) -> None:
    _init(self, *args[:3], "a", *args[4:], **named)


@bug("W-17", "a difference of two is called balanced", handover, "wanted_from_others")
def _(mine: Any, others: Any, level: int) -> int:
    most = max((load.held for load in others), default=0)
    return int(mine.room(level)) if most > mine.held + 2 else 0


@bug("W-18", "leases are not given back", Coordinator, "leave_steps")
def _(self: Any) -> Any:
    return iter(())


# --- lineage --------------------------------------------------------------------------------


@bug("L-04", "a parent without a row counts as finished", Ledger, "_find_passed")
def _(self: Any) -> frozenset[str]:
    parents = {p for s in self.listing.shards.values() for p in s.parents}
    return frozenset(parents - self.rows.keys())


@bug("L-06", "completed when the last page is fetched", Pipeline, "_take_in")
def _(self: Any, page: Any, *, ended: bool) -> None:
    _take_in(self, page, ended=ended)
    if ended:
        self._send(ShardProcessed(self.key))


@bug("L-07", "an empty closed shard is never completed", Pipeline, "_all_processed")
def _(self: Any) -> bool:
    whole = self._read_to_end and self._ahead.records == 0 and len(self._watermark) == 0
    return bool(whole and self._counts.records and isinstance(self._position, After))


@bug("L-08", "nobody writes the final checkpoint", Coordinator, "complete")
def _(self: Any, shard_id: str, epoch: int) -> None:
    return


@bug("L-09", "a late checkpoint overwrites the completed mark", memory, "_require_same")
def _(stored: Any, expected: Any) -> None:
    if _tenure(stored) != _tenure(expected):
        raise Conflict(stored)


def _tenure(row: Any) -> Any:
    return None if row is None else (row.lease_owner or row.given_to, row.epoch)


def _finished_but_owned(row: Any, gap: str = "", as_of: Any = None) -> Any:
    return replace(rows.finished(row, gap, as_of), given_to=row.lease_owner)


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (saves, "finished", _finished_but_owned)))


@bug("L-10", "finished rows are deleted at once", state, "clean")
def _(ledger: Any, *_: Any) -> Any:
    return [Delete(ledger.rows[i]) for i in sorted(ledger.completed)]


@bug("L-11", "a parent is not repaired while its child has a row", Ledger, "missing",
     lost_in_use=lambda _: [])  # fmt: skip
def _(self: Any) -> list[str]:
    parents = {p for row in self.rows.values() for p in row.parents}
    return [i for i in self.listing.shards if i not in self.rows and i not in parents]


@bug("L-12", "a child under a parent that looks open is let go", ledger, "trace")
def _(listed: Any, **known: Any) -> Any:
    closed = {s.id for s in listed if s.closed}
    cut = [replace(s, parents=tuple(p for p in s.parents if p in closed)) for s in listed]
    return trace(cut, **known)


@bug("L-13", "only who finished the parents makes their children's rows", MissingRows, "create")
def _(self: Any, header: Any, ledger: Any, *args: Any, **named: Any) -> Any:
    ended, listed = self.__dict__.get("_ended", set()), ledger.listing.shards
    for i in _create(self, header, ledger, *args, **named):
        if not isinstance(i, Create) or ended.issuperset(listed[i.new.shard_id].parents):
            yield i


def _done_and_known(self: Any, event: Any, now: float) -> Any:
    did = event.instruction
    if isinstance(did, Save) and did.new.completed:
        self._missing.__dict__.setdefault("_ended", set()).add(did.new.shard_id)
    return _done(self, event, now)


BUGS[-1] = replace(
    BUGS[-1], changes=(*BUGS[-1].changes, (LeaseState, "_write_done", _done_and_known))
)


@bug("L-14", "a listing is believed for ever", LeaseState, "listing_due_at")
def _(self: Any, now: float) -> float:
    return float("inf") if self.ledger.listing.shards else 0.0


BUGS[-1] = replace(
    BUGS[-1],
    changes=(*BUGS[-1].changes, (ListedShards, "closed_since", lambda *_: True)),
)


@bug("L-18", "a stream made again gets the old one's rows", Listings, "_describe")
def _(self: Any) -> Any:
    service, self._service = self._service, _SameAge(self._service)
    try:
        yield from _describe(self)
    finally:
        self._service = service


class _SameAge:
    def __init__(self, service: Any) -> None:
        self._service = service

    def describe(self) -> Any:
        return replace(self._service.describe(), created_at=EPOCH)


@bug("L-18", "a stream made again is taken for a first start", RowRounds, "_new_header")
def _(self: Any, stored: Any, created_at: Any, latest: Any) -> Any:
    header = _new_header(self, stored, created_at, latest)
    made_again = stored is not None and stored.stream_created_at != header.stream_created_at
    return replace(header, settled=header.settled and not made_again)


_new_header = RowRounds._new_header


# --- work under a lease ---------------------------------------------------------------------


@bug("D4", "the same epoch is started a second time", Holdings, "start")
def _(self: Any, shard_id: str, holding: Any) -> None:
    holding.stage = Stage.STARTED


def _resumed(self: Any, row: Any, new: Any, holding: Any) -> Any:
    holding.stage = Stage.TAKEN


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (Saves, "_take_anew", _resumed)))


@bug("K-45", "a hand-over does not wait for the running batch", WorkerCalls, "due")
def _(self: Any, *args: Any, **named: Any) -> Any:
    for shard_id in self._handovers.giving:
        holding = self._holdings.by_shard.get(shard_id)
        if holding is not None and holding.stage is Stage.FINISHING:
            holding.stage = Stage.FINISHED
    return _calls(self, *args, **named)


@bug("K-48", "an end that was not answered is not tried again", Saves, "due")
def _(self: Any, *args: Any, **named: Any) -> Any:
    tried = self.__dict__.setdefault("_tried", set())
    for save in _due(self, *args, **named):
        end = isinstance(save, Save) and save.new.completed
        if not end or save.new.shard_id not in tried:
            tried.update([save.new.shard_id] if end else [])
            yield save


@bug("R-06", "a row made again begins at the shard's beginning", Ledger, "lost_in_use")
def _(self: Any) -> list[str]:
    for shard_id, row in self.lost.items():
        self.lost[shard_id] = replace(row, checkpoint=TRIM_HORIZON, completed=False)
    return sorted(self.lost)


# --- a start at "latest", and owners that live again ----------------------------------------


@bug("O-22", "what is closed at the first listing is skipped, whenever it was closed", Ledger,
     "_find_passed")  # fmt: skip
def _(self: Any) -> frozenset[str]:
    header = self.header
    if header is None or not header.latest or header.settled:
        return _passed(self)
    closed = {i for i, s in self.listing.shards.items() if s.closed and i not in self.rows}
    return _passed(self) | closed


_passed = Ledger._find_passed


@bug("L-04", "after latest a parent whose row was not read is taken for skipped", Ledger,
     "_find_passed")  # fmt: skip
def _(self: Any) -> frozenset[str]:
    if not self._settled_at_latest:
        return _passed(self)
    parents = {p for row in self.rows.values() for p in row.parents}
    return frozenset(_passed(self) | (parents - self.rows.keys()))


@bug("W-06", "a dead owner is not asked again before its lease is taken", RowKnowledge,
     "heartbeats_before_taking")  # fmt: skip
def _(self: Any, owners: Any) -> None:
    return
