"""The bugs of real systems, each put in the place of the right code: see the case it names."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shardline.core.leasing import free_leases, handover, ledger, rows, state
from shardline.core.leasing.free_leases import FreeLeases
from shardline.core.leasing.instructions import (
    Create,
    Delete,
    Release,
    Renew,
    RequestHandover,
    Save,
    Take,
)
from shardline.core.leasing.ledger import Ledger
from shardline.core.leasing.missing_rows import MissingRows
from shardline.core.leasing.peers import Peers
from shardline.core.leasing.shares import Level, level_of
from shardline.core.leasing.state import LeaseState
from shardline.core.lineage import trace
from shardline.core.positions import TRIM_HORIZON
from shardline.leases import memory
from shardline.leases.coordinator import Coordinator
from shardline.leases.port import Conflict
from tests.simulation.spark import Worker
from tests.simulation.stream import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Bug:
    """What to put in the place of what."""

    case: str
    what: str
    changes: tuple[tuple[Any, str, Any], ...]

    @contextmanager
    def installed(self) -> Iterator[None]:
        originals = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.changes]
        for owner, name, value in self.changes:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in originals:
                setattr(owner, name, value)


BUGS: list[Bug] = []


def bug(case: str, what: str, owner: Any, name: str, **others: Any) -> Callable[[Any], Any]:
    """Put the function below in the place of another; `others` of the same owner beside it."""

    def register(function: Any) -> Any:
        changes = [(owner, name, function), *((owner, n, value) for n, value in others.items())]
        BUGS.append(Bug(case, what, tuple(changes)))
        return function

    return register


_init: Any = Coordinator.__init__
_find_stream, _held, _refused = Coordinator._find_stream, LeaseState.held, LeaseState.refused
_decide, _done, _tell, _claim = (
    LeaseState.decide,
    LeaseState.done,
    LeaseState._tell,
    LeaseState.claim,
)
_saves: Any = LeaseState._saves
_remember, _mine, _loads, _make = (
    Ledger.remember,
    FreeLeases.mine,
    FreeLeases.loads,
    MissingRows.make,
)
_plan, _acknowledge, _resume = Worker._plan, Worker._acknowledge, Worker._resume


# --- workers and leases ---------------------------------------------------------------------


@bug("W-01", "a lost lease is not told: work goes on under it", LeaseState, "held")
def _(self: Any, now: float) -> Any:
    told = self.__dict__.setdefault("_never_stopped", {})
    told.update(_held(self, now))
    return {i: lease for i, lease in told.items() if i not in self.ledger.completed}


@bug("W-02", "a write asks only whether there is a row", memory, "_require_same")
def _(stored: Any, expected: Any) -> None:
    if (stored is None) != (expected is None):
        raise Conflict(stored)


@bug("W-02", "a take keeps the epoch", state, "taken")
def _(row: Any, owner: str) -> Any:
    return replace(row, lease_owner=owner, lease_count=row.lease_count + 1, given_to=None)


@bug("W-03", "a worker is its name: incarnations look the same", Coordinator, "__init__")
def _(self: Any, *args: Any, **named: Any) -> None:
    _init(self, *args, **{**named, "incarnation": "1"})


@bug("W-03", "names are small numbers that collide", Coordinator, "__init__")
def _(self: Any, *args: Any, **named: Any) -> None:
    name = str(zlib.crc32(args[4].encode()) % 2)
    _init(self, *args[:4], name, **{**named, "incarnation": "1"})


@bug("W-04", "a renewal without an answer is never read again", LeaseState, "refused")
def _(self: Any, did: Any, current: Any, now: float) -> None:
    if not isinstance(did, Renew | RequestHandover):
        _refused(self, did, current, now)


@bug("W-05", "a write without an answer is believed to have happened", LeaseState, "unanswered")
def _(self: Any, did: Any, now: float) -> None:
    if isinstance(did, Take | Save | Release):
        self.done(did, now)


@bug("W-06", "a worker that cannot renew goes on", LeaseState, "working")
def _(self: Any, now: float) -> bool:
    return self._renewed_at > float("-inf") and not self._stalled(now)


@bug("W-06", "a worker that was away believes what it held", LeaseState, "_notice_lapse")
def _(self: Any, now: float) -> None:
    return


@bug("W-07", "expiry is judged by a clock that is fast", Peers, "suspects")
def _(self: Any, now: float) -> list[str]:
    for seen in self._seen.values():
        seen.dead = seen.dead or now - seen.since >= self._lease_seconds / 4
    return []


@bug("W-08", "mine in memory stays mine, though the table says nobody's", Ledger, "remember")
def _(self: Any, row: Any) -> None:
    known = self.rows.get(row.shard_id)
    mine = known is not None and known.lease_owner is not None and not known.completed
    if not mine or row.lease_owner is not None or row.completed:
        _remember(self, row)


@bug("W-09", "only a leader deals, and a dead one stays leader", FreeLeases, "mine")
def _(self: Any, ledger: Any, peers: Any, now: float) -> list[str]:
    return _mine(self, ledger, peers, now) if self._me <= min(peers._seen, default="~") else []


@bug("W-10", "the heart beats on when the work has died", LeaseState, "_stalled")
def _(self: Any, now: float) -> bool:
    return False


@bug("W-11", "a lease that was given waits for its asker for ever", FreeLeases, "mine")
def _(self: Any, ledger: Any, peers: Any, now: float) -> list[str]:
    mine = _mine(self, ledger, peers, now)
    return [i for i in mine if ledger.rows[i].given_to in (None, self._me)]


@bug("W-12", "a worker that leaves takes leases", LeaseState, "decide")
def _(self: Any, now: float, today: Any) -> Any:
    left, self.leaving = self.leaving, False
    decided = _decide(self, now, today)
    self.leaving = left
    return decided


@bug("W-12", "leaving is not recorded: leases are dealt to who has left", Peers, "live")
def _(self: Any) -> Any:
    return [s.beat for w, s in sorted(self._seen.items()) if s.beat and not self.dead(w)]


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (LeaseState, "goodbye", lambda _: None)))


@bug("W-13", "what nobody has room for is not said", free_leases, "level_of")
def _(total: int, loads: Any) -> Level:
    return Level(level_of(total, loads).level, 0)


@bug("W-13", "finished shards count as held", FreeLeases, "loads")
def _(self: Any, ledger: Any, peers: Any, coming: Any = None) -> Any:
    coming = {**(coming or {}), self._me: (coming or {}).get(self._me, 0) + len(ledger.completed)}
    return _loads(self, ledger, peers, coming)


@bug("W-14", "a deleted row is not made again", MissingRows, "make")
def _(self: Any, header: Any, ledger: Any, peers: Any, now: float) -> Any:
    known = self.__dict__.setdefault("_known", set())
    known.update(ledger.rows)
    made = _make(self, header, ledger, peers, now)
    return (i for i in made if not isinstance(i, Create) or i.new.shard_id not in known)


@bug("W-14", "a row that is made again begins with its first epoch", MissingRows, "moved")
def _(self: Any, header: Any, now: float) -> None:
    self._first_epoch, self._moved_at = 1, now


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


@bug("L-04", "a parent without a row counts as finished", Ledger, "_find_done_above")
def _(self: Any) -> frozenset[str]:
    parents = {p for s in self.listed.values() for p in s.parents}
    return frozenset(parents - self.rows.keys())


@bug("L-06", "completed when the last page is fetched", Worker, "_plan")
def _(self: Any, coordinator: Any) -> Any:
    ranges = _plan(self, coordinator)
    for r in ranges:
        if r.end:
            coordinator.leasing.end(r.shard_id, r.epoch)
    return ranges


@bug("L-07", "an empty closed shard is never completed", Worker, "_plan")
def _(self: Any, coordinator: Any) -> Any:
    return tuple(r for r in _plan(self, coordinator) if r.upto > r.after)


@bug("L-08", "nobody writes the final checkpoint", Worker, "_acknowledge")
def _(self: Any, coordinator: Any) -> None:
    self._served = {i: replace(r, end=False) for i, r in self._served.items()}
    _acknowledge(self, coordinator)


@bug("L-09", "a late checkpoint overwrites the completed mark", memory, "_require_same")
def _(stored: Any, expected: Any) -> None:
    if _tenure(stored) != _tenure(expected):
        raise Conflict(stored)


def _tenure(row: Any) -> Any:
    return None if row is None else (row.lease_owner or row.given_to, row.epoch)


def _finished_but_owned(row: Any, gap: str = "") -> Any:
    return replace(rows.finished(row, gap), given_to=row.lease_owner)


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (state, "finished", _finished_but_owned)))


@bug("L-10", "finished rows are deleted at once", state, "clean")
def _(ledger: Any, *_: Any) -> Any:
    return [Delete(ledger.rows[i]) for i in sorted(ledger.completed)]


@bug("L-11", "a parent is not repaired while its child has a row", Ledger, "missing",
     lost_in_use=lambda _: [])  # fmt: skip
def _(self: Any) -> list[str]:
    parents = {p for row in self.rows.values() for p in row.parents}
    return [i for i in self.listed if i not in self.rows and i not in parents]


@bug("L-12", "a child under a parent that looks open is let go", ledger, "trace")
def _(listed: Any, **known: Any) -> Any:
    closed = {s.id for s in listed if s.closed}
    cut = [replace(s, parents=tuple(p for p in s.parents if p in closed)) for s in listed]
    return trace(cut, **known)


@bug("L-13", "only who finished the parents makes their children's rows", MissingRows, "make")
def _(self: Any, *args: Any) -> Any:
    ended, listed = self.__dict__.get("_ended", set()), args[1].listed
    for i in _make(self, *args):
        if not isinstance(i, Create) or ended.issuperset(listed[i.new.shard_id].parents):
            yield i


def _done_and_known(self: Any, did: Any, *args: Any) -> None:
    if isinstance(did, Save) and did.new.completed:
        self._making.__dict__.setdefault("_ended", set()).add(did.new.shard_id)
    _done(self, did, *args)


BUGS[-1] = replace(BUGS[-1], changes=(*BUGS[-1].changes, (LeaseState, "done", _done_and_known)))


@bug("L-14", "a listing is believed for ever", Coordinator, "_list")
def _(self: Any, moved: bool) -> Any:
    return iter(())


@bug("L-18", "a stream made again gets the old one's rows", Coordinator, "_find_stream")
def _(self: Any, *args: Any, **named: Any) -> Any:
    service, self._service = self._service, _SameAge(self._service)
    try:
        yield from _find_stream(self, *args, **named)
    finally:
        self._service = service


class _SameAge:
    def __init__(self, service: Any) -> None:
        self._service = service

    def describe(self) -> Any:
        return replace(self._service.describe(), created_at=EPOCH)


# --- a query that starts again --------------------------------------------------------------


@bug("D4", "an unfinished batch is replayed whoever had the shard since", LeaseState, "claim",
     succeeds=lambda self, i, _: i in self.mine)  # fmt: skip
def _(self: Any, shard_id: str, epoch: int) -> Any:
    row = self.ledger.rows.get(shard_id)
    return _claim(self, shard_id, row.epoch) if row else None


@bug("D4", "an unfinished batch is acknowledged without being run again", Worker, "_resume")
def _(self: Any, coordinator: Any, ranges: Any) -> Any:
    self._task = lambda *_: iter(())
    yield from _resume(self, coordinator, ranges)
    del self._task


@bug("K-45", "a hand-over does not wait for the running batch", LeaseState, "_tell")
def _(self: Any, now: float) -> Any:
    for shard_id in self._handovers.giving:
        if shard_id in self._work:
            self._work[shard_id].finished = True
    return _tell(self, now)


@bug("K-48", "an end that was not answered is not tried again", LeaseState, "_saves")
def _(self: Any, now: float) -> Any:
    tried = self.__dict__.setdefault("_tried", set())
    for save in _saves(self, now):
        end = isinstance(save, Save) and save.new.completed
        if not end or save.new.shard_id not in tried:
            tried.update([save.new.shard_id] if end else [])
            yield save


@bug("R-06", "a row made again begins at the shard's beginning", Ledger, "lost_in_use")
def _(self: Any) -> list[str]:
    for shard_id, row in self.lost.items():
        self.lost[shard_id] = replace(row, checkpoint=TRIM_HORIZON, completed=False)
    return sorted(self.lost)
