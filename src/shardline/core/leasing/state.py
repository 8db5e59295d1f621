"""Which leases a worker takes, keeps and releases: events go in, instructions come out.

No leader, no wall clock, nothing trusted but conditional writes. `now` is the worker's own steady
time in seconds. A lease belongs to (owner, epoch); each take raises the epoch, so that the
earlier owner can write no more. `handle` is the only entry: the same events lead to the same state.

The rules:

1. A worker that could not renew its heartbeat in time stops all work before anybody else can have
   observed a whole lease time, and takes each lease anew before work starts again.
2. What was done is written down: checkpoints now and then, ends and hand-overs at once. An end is
   believed when a listing made after it shows the shard closed.
3. A row that is missing is created: by the owner of its parents, by the worker on duty for it,
   after a while by anybody.
4. Free leases of readable shards are dealt evenly; one that stays free is anybody's. All that is
   free is read before any of it is taken, and a new worker creates and takes only a few.
5. A worker below its share asks a worker above its share, in its heartbeat; the owner finishes what
   runs, and releases the lease for the asker. If the asker is gone, it is free for all.
6. A shard on which work began too often without an acknowledgement is halted, and nobody takes it.
7. Completed rows go when nothing descends from them and a retention period has passed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Final

from shardline.core.leasing import events as e
from shardline.core.leasing.cleanup import clean
from shardline.core.leasing.described_stream import DescribedStream
from shardline.core.leasing.free_leases import FreeLeases
from shardline.core.leasing.handover import Handovers
from shardline.core.leasing.holdings import AT_WORK, Held, Holdings, Stage, phase
from shardline.core.leasing.instructions import (
    Bump,
    Create,
    Delete,
    Forget,
    Instruction,
    ReadParkedKeys,
    Release,
    Renew,
    Save,
    Stop,
    Take,
    describe,
)
from shardline.core.leasing.knowledge import RowKnowledge
from shardline.core.leasing.ledger import Ledger
from shardline.core.leasing.listing_schedule import ListingSchedule
from shardline.core.leasing.missing_rows import MissingRows
from shardline.core.leasing.own_heartbeat import OwnHeartbeat
from shardline.core.leasing.peers import Peers
from shardline.core.leasing.recent_lines import RecentLines
from shardline.core.leasing.reports import apply_report, disbelieve_ends
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow, halted, taken
from shardline.core.leasing.runs import RunObserver, RunState
from shardline.core.leasing.saves import Saves, too_many_starts
from shardline.core.leasing.startup_limits import StartupLimits
from shardline.core.leasing.times import LeaseTimes
from shardline.core.leasing.worker_calls import WorkerCalls

__all__ = ["Held", "LeaseState", "LeaseTimes"]

_LISTING: Final = "listing"
_CHILDLESS_SECONDS: Final = 3.0
"""A shard that ended has children within this time; otherwise the whole stream is listed."""
_UNBELIEVED_LEASES: Final = 6
"""An end that no listing confirms for this many lease times is not believed."""


class LeaseState:
    """One worker's part in sharing the shards of a stream among the workers of an app."""

    def __init__(
        self,
        app_name: str,
        stream_name: str,
        owner: str,
        *,
        times: LeaseTimes | None = None,
        capacity: int | None = None,
        goes_on_after_gaps: bool = False,
        run_id: str | None = None,
    ) -> None:
        self.owner: Final = owner
        self.times: Final = times or LeaseTimes()
        lease_seconds = self.times.lease_seconds
        self.ledger: Final = Ledger(goes_on_after_gaps=goes_on_after_gaps)
        self.peers: Final = Peers(owner, lease_seconds)
        self.heartbeat: Final = OwnHeartbeat(
            Heartbeat(app_name, stream_name, owner, capacity=capacity), self.times
        )
        self.holdings: Final = Holdings()
        self.run: Final = RunObserver(run_id, self.times.abandon_seconds)
        self.listing: Final = ListingSchedule()
        self.log: Final = RecentLines(owner)
        self.leaving = False
        self._known: Final = RowKnowledge()
        self._free: Final = FreeLeases(owner, lease_seconds, capacity)
        self._handovers: Final = Handovers(owner, lease_seconds)
        self._missing: Final = MissingRows(owner, lease_seconds)
        self.limits: Final = StartupLimits(self.times.renew_seconds)
        self._saves: Final = Saves(
            owner, self.times, self.ledger, self.holdings, self._handovers, self.peers
        )
        self._calls: Final = WorkerCalls(owner, self.ledger, self.holdings, self._handovers)
        self.described: Final = DescribedStream()

    # --- the door ---------------------------------------------------------------------------

    def handle(self, event: e.Event, now: float) -> list[Instruction]:
        """Take in what happened, and return what to do: calls to the worker first."""
        to_worker: list[Instruction] = [] if self.working(now) else [*self._notice_lapse(now)]
        wanted: list[Instruction] = []
        changed: Iterable[str] | None = None
        match event:
            case e.TimePassed():
                pass
            case e.RenewalDue():
                wanted.extend(self._renewal(now))
            case e.DecisionDue(today):
                wanted.extend(self._decide(now, today))
                changed = self._shards_of_mine()
            case e.RoundBegun():
                self._known.begin_round()
            case e.HeaderRead() | e.HeartbeatsRead() | e.RowsScanned() | e.RowsRead():
                changed = self._take_in(event, now)
            case e.WriteDone():
                changed = self._write_done(event, now)
            case e.WriteRefused():
                changed = self._write_refused(event, now)
            case e.WriteUnanswered(Create(n) | Take(n) | Save(n) | Release(n) | Delete(n) as did):
                self.log.write(now, f"no answer to: {describe(did)}")
                self._known.unverified.add(n.shard_id)
            case e.Acknowledged() | e.GapNoted() | e.ShardEnded() | e.ShardFinished():
                self._report(event, now)
            case e.ShardRestarted() | e.ShardGivenUp() | e.ShardHalted():
                self._report(event, now)
                changed = (event.shard_id,)
            case e.ParkedKeysRead(shard_id, epoch, keys):
                holding = self.holdings.get(shard_id, epoch)
                if holding is not None:
                    holding.parked = keys
                changed = (shard_id,)
            case e.Summarized(summary):
                self.heartbeat.summary = summary
            case e.WriteUnanswered():
                pass
            case e.RunRead(run):
                self.run.read(run, now)
            case e.Leaving():
                self.leaving = True
                changed = self._shards_of_mine()
            case _:
                changed = self._take_in(event, now)
        if changed:
            working, leaving = self.working(now), self.leaving
            to_worker.extend(self._calls.due(changed, now, working=working, leaving=leaving))
        return to_worker + wanted

    # --- queries ----------------------------------------------------------------------------

    @property
    def header(self) -> Header | None:
        """The header row as last read."""
        return self.ledger.header

    @property
    def mine(self) -> set[str] | frozenset[str]:
        """The shards whose rows name this worker, as far as it knows."""
        return self.ledger.owned.get(self.owner, frozenset())

    @property
    def unowned(self) -> int:
        """How many shards nobody has room for, because of capacities."""
        return self._free.unowned

    @property
    def stream(self) -> e.StreamDescribed | None:
        """The stream as last described."""
        return self.described.description

    def working(self, now: float) -> bool:
        """Return true if this worker may act under its leases: it renewed recently enough."""
        return now < self.heartbeat.valid_until

    def held(self, now: float) -> dict[str, Held]:
        """Return the leases that may be worked under at this moment."""
        return self._calls.held() if self.working(now) else {}

    def at_work(self, shard_id: str, epoch: int, now: float) -> bool:
        """Return true if work under this epoch started and may go on."""
        holding = self.holdings.get(shard_id, epoch)
        return (
            holding is not None
            and holding.stage in AT_WORK
            and holding.ended_at is None
            and self.working(now)
        )

    def wanted_rows(self) -> list[str]:
        """Return single rows that are worth a consistent read now."""
        return self._known.wanted(
            asked=self._handovers.asked_at,
            missing=self.ledger.missing(),
            departed=self.peers.of_departed(self.ledger.owned),
            mine=self.mine,
            unproven=self.ledger.unproven,
            awaited=self.ledger.awaited,
        )

    def must_scan(self) -> bool:
        """Return true if reading all rows is worth it: many may have changed, or a share lacks."""
        too_many, departed = self._known.too_many, self.peers.of_departed(self.ledger.owned)
        return too_many(self.ledger.missing()) or too_many(departed) or self._handovers.short

    def listing_due_at(self, now: float) -> float:
        """Return when to list the stream again."""
        on_duty = self.peers.on_duty(_LISTING)
        workers = len(self.peers.live()) + 1
        wanted = self._listing_wanted(now)
        return self.listing.due_at(wanted=wanted, on_duty=on_duty, workers=workers)

    def ended_shards(self) -> list[str]:
        """Return the shards that ended here and are not known to be closed: list their children."""
        listing = self.ledger.listing
        return [
            i
            for i, holding in self.holdings.by_shard.items()
            if holding.ended_at is not None and not listing.closed_since(i, holding.ended_at)
        ]

    def describe_due_at(self) -> float:
        """Return when to describe the stream again."""
        on_duty = self.peers.on_duty(_LISTING)
        return self.listing.describe_at(on_duty=on_duty, workers=len(self.peers.live()) + 1)

    def unknown_shards(self) -> list[str]:
        """Return the shards to ask the service for, those on this worker's duty first."""
        unknown = [i for i in self.ledger.undiscovered if i not in self.ledger.listing.gone]
        mine = set(self.peers.on_duty_for(unknown))
        return sorted(unknown, key=lambda i: i not in mine)

    # --- what was read ----------------------------------------------------------------------

    def _take_in(self, event: e.Event, now: float) -> Collection[str]:
        ledger = self.ledger
        match event:
            case e.HeaderRead(header, skipped):
                known = ledger.header
                if known is not None and known.stream_created_at != header.stream_created_at:
                    self.listing.stream_replaced()
                ledger.read_header(header, now, skipped)
            case e.RowsScanned(rows, after, next_after):
                for row in rows:
                    ledger.remember(row, now)
                self._known.scanned({row.shard_id for row in rows}, ledger.rows, after, next_after)
            case e.RowsRead(asked, found):
                for shard_id in asked:
                    if shard_id in found:
                        ledger.remember(found[shard_id], now)
                    else:
                        if shard_id in ledger.rows:
                            self.log.write(now, f"the row of {shard_id} is gone")
                        ledger.missed(shard_id)
                self._known.read(asked)
            case e.HeartbeatsRead(beats):
                self.peers.observe(beats, (o for o in ledger.owned if o), now)
            case e.HeartbeatRead(worker, beat):
                self._known.confirmed.add(worker)
                if self.peers.confirm(worker, beat, now):
                    self.log.write(now, f"{worker} is dead: its heartbeat stood still")
            case e.StreamDescribed():
                self.described.describe(event, now, ledger.listing)
                self.listing.described(now)
            case e.ShardsListed(shards, asked_at):
                ledger.list_shards(shards, asked_at)
                if ledger.header is not None:  # one made before that only resolves "latest"
                    self.listing.listed(asked_at, now, len(shards))
                    self._disbelieve_ends(now)
                    self.listing.wanted(wanted=self._listing_wanted(now))
            case e.ChildrenListed(_, children):
                if children:
                    ledger.list_children(children)
            case e.ShardLookedUp(shard_id, found_it):
                may_be_gone = self.described.may_be_gone(ledger.rows.get(shard_id), now)
                if found_it or (may_be_gone and not ledger.predates(shard_id)):
                    ledger.looked_up(shard_id, found_it, now)
            case _:
                raise TypeError(f"not an event: {event}")
        self._promise()
        return self._shards_of_mine()

    def _report(self, event: e.Report, now: float) -> None:
        """Take in what the worker reports; ignored if it is not at work under that epoch."""
        holding = self.holdings.get(event.shard_id, event.epoch)
        if holding is None or holding.stage not in AT_WORK:
            return
        line = apply_report(event, holding, self.ledger.rows[event.shard_id], now)
        if line:
            self.log.write(now, line)
        if isinstance(event, e.ShardGivenUp):
            self.holdings.avoided_until[event.shard_id] = now + self.times.avoid_seconds

    # --- what became of writes --------------------------------------------------------------

    def _write_done(self, event: e.WriteDone, now: float) -> tuple[str, ...]:
        match event.instruction:
            case Renew(new):
                self.heartbeat.written(new, event.sent_at)
                self.limits.renewed(event.sent_at)
            case Bump() if event.header is not None:
                self._known.moved = False
                self.ledger.read_header(event.header, now)
                self._missing.moved(event.header, event.sent_at)
            case Create(row) | Take(row) | Save(row) | Release(row) as did:
                self.log.write(now, describe(did))
                self.ledger.remember(row, now)
                self._known.fresh.add(row.shard_id)
                self._row_written(did, row, event.sent_at)
                return (row.shard_id,)
            case Delete(row):
                self.ledger.deleted(row.shard_id)
            case Forget(beat) if beat.worker == self.owner:
                self.heartbeat.refused(None)
            case Forget(beat):
                self.peers.forget(beat.worker)
        return ()

    def _row_written(self, did: Instruction, new: LeaseRow, sent_at: float) -> None:
        shard_id = new.shard_id
        if isinstance(did, Create):
            self.limits.created()
        if new.lease_owner == self.owner:
            spread = self.times.checkpoint_seconds * phase(shard_id)
            taking = isinstance(did, Take)
            holding = self.holdings.adopt(shard_id, new.epoch, sent_at, spread if taking else 0)
            if taking:
                self._missing.doubtful.discard(shard_id)
            else:
                holding.saved_at = sent_at
            if holding.acknowledged == new.checkpoint and holding.as_of in (None, new.as_of):
                holding.acknowledged = None
            if holding.gap in new.gap:
                holding.gap = ""
        elif shard_id in self.holdings.by_shard:
            self._known.moved = True
            if new.completed:
                self.holdings.completed_here.add(shard_id)

    def _write_refused(self, event: e.WriteRefused, now: float) -> tuple[str, ...]:
        match event.instruction, event.current:
            case (Create(new) | Take(new) | Save(new) | Release(new) as did, LeaseRow() as current):
                if current == new:  # an earlier answer was lost: it is this worker's own write
                    return self._write_done(e.WriteDone(did, now), now)
                self.log.write(
                    now, f"refused: {describe(did)}; {current.lease_owner} is at {current.version}"
                )
                self.ledger.remember(current, now)
                self._known.refused(current)
                return (new.shard_id,)
            case (Create(new) | Take(new) | Save(new) | Release(new), None):
                self.log.write(now, f"the row of {new.shard_id} is gone")
                self.ledger.missed(new.shard_id)
                self.ledger.outdated.pop(new.shard_id, None)
                return (new.shard_id,)
            case (Delete(row), LeaseRow() as current):
                self.ledger.remember(current, now)
                return (row.shard_id,)
            case (Delete(row), None):
                self.ledger.deleted(row.shard_id)
            case (Renew(), Heartbeat() | None as stored):
                self.heartbeat.refused(stored)
            case (Forget() as did, None):
                return self._write_done(e.WriteDone(did, now), now)
            case (Bump(), Header() as header):
                self.ledger.read_header(header, now)
        return ()

    # --- the rules --------------------------------------------------------------------------

    def _renewal(self, now: float) -> Iterator[Renew]:
        if self.run.state in (RunState.UNKNOWN, RunState.MISSING):
            return
        asks = () if self.leaving else self._handovers.asked_at
        renewal = self.heartbeat.renewal(now, len(self.mine), asks, self.leaving)
        if renewal is not None:
            yield renewal

    def _decide(self, now: float, today: datetime) -> Iterator[Instruction]:
        if not self.working(now) or self.header is None:
            return
        found: list[Instruction] = []
        new = [i for i, h in self.holdings.by_shard.items() if h.parked is None]
        if new and not self.leaving:
            found.append(self._parked_keys_of(new))
        if not self.leaving and self.run.state is RunState.RUNNING:
            # First: what has no owner stands still, what was done does not.
            found.extend(self._share(self.header, now))
            retention = self.times.retention_seconds
            found.extend(clean(self.ledger, self.peers, retention, now, today))
        mine = set(self.mine) - self._known.unverified
        found.extend(self._saves.due(mine, now, leaving=self.leaving))
        if self.ledger.goes_on_after_gaps:
            found.extend(self._saves.vanished())
        if self._known.moved and not found:
            found.append(Bump())
        farewell = self.heartbeat.farewell()
        if self.leaving and not self.mine and farewell is not None and not found:
            found.append(farewell)
        yield from found

    def _share(self, header: Header, now: float) -> Iterator[Instruction]:
        """Create what is missing, take what is free, and ask for the rest of the share."""
        ledger, peers, holdings = self.ledger, self.peers, self.holdings
        if self.described.description is not None:
            created = self._missing.create(
                header, ledger, peers, now,
                service_time=self.described.time(now), retention=self.described.retention(),
                heirs_of=holdings.completed_here | set(self.mine),
            )  # fmt: skip
            yield from islice(created, self.limits.most_to_create(now))
        self._free.find(ledger, peers, now)
        heirs = {
            i for i in self._free.since
            if any(p in holdings.completed_here for p in ledger.rows[i].parents)
        }  # fmt: skip
        avoided = holdings.avoided(now)
        chosen = self._free.mine(ledger, peers, now, first=heirs, avoided=avoided)
        if not chosen:
            loads, level = self._free.loads(ledger, peers)
            self._handovers.ask(ledger, peers, loads, level.level, now, avoided)
            return
        read: Instruction | None = self._known.read_before_taking(self._free.since)
        owners = (ledger.rows[i].lease_owner for i in chosen)
        read = read or self._known.heartbeats_before_taking(owners)
        if read is not None:
            yield read
            return
        most = self.limits.most_to_take(len(self.mine), len(ledger.leasable), self.run.workers, now)
        for shard_id in islice(chosen, most):
            if shard_id in self._known.fresh and shard_id not in self._known.unverified:
                yield self._take(ledger.rows[shard_id], now)

    def _take(self, row: LeaseRow, now: float) -> Take | Save:
        if row.starts >= self.times.most_starts:
            return Save(halted(row, too_many_starts(row)), row)
        as_of = self.described.as_of(row, self.ledger.as_of_parents(row.parents), now)
        above = self.ledger.epoch_of_parents(row)
        return Take(taken(row, self.owner, above, as_of=as_of), row)

    def _parked_keys_of(self, shard_ids: Iterable[str]) -> ReadParkedKeys:
        rows, holdings = self.ledger.rows, self.holdings.by_shard
        return ReadParkedKeys(
            tuple((i, holdings[i].epoch, rows[i].parents) for i in shard_ids if i in rows)
        )

    def _notice_lapse(self, now: float) -> Iterator[Stop]:
        """Stop everything: the heartbeat was not renewed in time."""
        for shard_id, holding in sorted(self.holdings.by_shard.items()):
            if holding.stage is not Stage.STOPPED:
                self.log.write(now, f"could not renew in time: stopped {shard_id}")
                self._missing.doubtful.add(shard_id)
                yield from self._calls.stop(shard_id, holding)

    def _disbelieve_ends(self, now: float) -> None:
        before = now - _UNBELIEVED_LEASES * self.times.lease_seconds
        for shard_id in disbelieve_ends(self.holdings, self.ledger.listing, before):
            self.log.write(now, f"{shard_id} is listed open after its end: reading on")

    def _promise(self) -> None:
        if not self._handovers.giving and not any(beat.asks for beat in self.peers.live()):
            return
        at_work = {i for i, h in self.holdings.by_shard.items() if h.stage in AT_WORK}
        mine = set[str]() if self.leaving else at_work.intersection(self.mine)
        self._handovers.promise(mine, at_work, self.peers)

    def _shards_of_mine(self) -> Collection[str]:
        held, mine = self.holdings.by_shard, self.mine
        return (*held, *sorted(mine - held.keys())) if mine else tuple(held)

    def _listing_wanted(self, now: float) -> bool:
        """Return true if the listing has a hole, or a shard ended and has no children."""
        if self.ledger.listing.holes:
            return True
        ended = (self.holdings.by_shard[i].ended_at for i in self.ended_shards())
        return any(now - (at or now) >= _CHILDLESS_SECONDS for at in ended)
