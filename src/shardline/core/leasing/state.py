"""Which leases a worker takes, keeps and gives away: what was seen goes in, instructions come out.

No leader, no wall clock: only conditional writes are trusted. `now` is monotonic, in seconds. A
lease belongs to (owner, epoch); each take raises the epoch, which ends the last owner's writes.

The rules, in the order in which `decide` applies them:

1. A worker that could not renew its heartbeat in time holds nothing until it has renewed and
   has read its rows again. It stops before anybody else can have seen a whole lease time pass.
2. What is done is written down: checkpoints now and then, ends and hand-overs at once.
3. A row that is missing is made: first by the worker on duty for it, after a while by anybody.
4. Free leases of readable shards are dealt evenly; one that stays free is anybody's. It is read
   before it is taken, and who has just come makes and takes only a few.
5. Who has less than its share for a while asks one that has more, in its heartbeat; the owner
   finishes its batch, and releases the lease for the asker. If the asker dies, it is free for all.
6. Finished rows go when nothing descends from them and a retention period has passed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from shardline.core.checkpoints import further
from shardline.core.leasing.cleanup import clean
from shardline.core.leasing.free_leases import FreeLeases
from shardline.core.leasing.handover import Handovers
from shardline.core.leasing.instructions import (
    Bump,
    Create,
    Delete,
    Finish,
    Forget,
    Instruction,
    Release,
    Renew,
    RequestHandover,
    Save,
    Start,
    Take,
    Wait,
    Yield,
    said,
)
from shardline.core.leasing.ledger import Ledger
from shardline.core.leasing.missing_rows import MissingRows
from shardline.core.leasing.peers import Peers
from shardline.core.leasing.rows import (
    Header,
    Heartbeat,
    LeaseRow,
    advanced,
    finished,
    one_write,
    released,
    taken,
    with_gap,
)
from shardline.core.leasing.startup_limits import StartupLimits
from shardline.core.leasing.times import LeaseTimes
from shardline.core.leasing.work import Held, Work, phase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from shardline.core.positions import Position
    from shardline.core.shards import Shard

__all__ = ["Held", "LeaseState", "LeaseTimes"]

_STORY_LINES: Final = 60


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
    ) -> None:
        self.owner: Final = owner
        self.times: Final = times or LeaseTimes()
        self.ledger: Final = Ledger(goes_on_after_gaps=goes_on_after_gaps)
        self.peers: Final = Peers(owner, self.times.lease_seconds)
        self.header: Header | None = None
        self.leaving = False
        self._goes_on_after_gaps = goes_on_after_gaps
        self._dealing = FreeLeases(owner, self.times.lease_seconds, capacity)
        self._handovers = Handovers(owner, self.times.lease_seconds)
        self._making = MissingRows(owner, self.times.lease_seconds)
        self._restraint = StartupLimits(self.times.renew_seconds)
        self._beat = Heartbeat(app_name, stream_name, owner, capacity=capacity)
        self._beat_stored: Heartbeat | None = None
        self._renewed_at = float("-inf")
        self._signed_at: float | None = None
        self._work: dict[str, Work] = {}
        self._told: dict[str, tuple[int, bool]] = {}
        """What the consumer works on: the epoch, and whether it is to finish."""
        self._unverified: set[str] = set()
        """Mine before I failed to renew, or written without an answer: to be read again."""
        self._fresh: set[str] = set()
        """Rows as the table had them at the last look: only those are worth a take."""
        self.must_read = False
        """Whether there is something to take that was not read at the last look."""
        self._missed: set[str] = set()
        """Known, and missing from a page: to be read."""
        self._stirred = False
        self._story: deque[str] = deque(maxlen=_STORY_LINES)

    # --- what was seen ----------------------------------------------------------------------

    def saw_header(self, header: Header) -> None:
        """Tell what the header row says."""
        self.header = header
        self.ledger.belongs_to(header.stream_created_at)

    def saw_listing(self, shards: Iterable[Shard]) -> None:
        """Tell what the service lists."""
        self.ledger.list_shards(shards)

    def saw_rows(self, rows: Iterable[LeaseRow], after: str | None, next_after: str | None) -> None:
        """Tell of a page of rows, from a read that may lag: what is not in it is looked up."""
        found = set[str]()
        for row in rows:
            found.add(row.shard_id)
            self.ledger.remember(row)
        self._missed = {
            i
            for i in self.ledger.rows.keys() - found
            if (after is None or i > after) and (next_after is None or i <= next_after)
        }

    def read_rows(self, asked: Collection[str], rows: Mapping[str, LeaseRow], now: float) -> None:
        """Tell of a consistent read: what was asked for and is not there does not exist."""
        self._fresh = set(rows)
        for shard_id in asked:
            row = rows.get(shard_id)
            if row is not None:
                self.ledger.remember(row)
                self._making.doubtful.discard(shard_id)
            elif shard_id in self.ledger.rows:
                self._note(now, f"the row of {shard_id} is gone")
                self.ledger.missed(shard_id)
            self._unverified.discard(shard_id)

    def saw_heartbeats(self, beats: Iterable[Heartbeat], now: float) -> None:
        """Tell of all heartbeats, from a read that may lag."""
        self.peers.watch(beats, (o for o in self.ledger.owned if o), now)

    def read_heartbeat(self, worker: str, beat: Heartbeat | None, now: float) -> None:
        """Tell of a consistent read of a suspect's heartbeat."""
        if self.peers.confirm(worker, beat, now):
            self._note(now, f"{worker} is dead: its heartbeat stood still for a lease time")

    # --- what the consumer says -------------------------------------------------------------

    def acknowledge(
        self, shard_id: str, epoch: int, position: Position, as_of: datetime | None = None
    ) -> bool:
        """Note how far a shard was processed; False if the lease is not mine under this epoch."""
        work = self._working_on(shard_id, epoch)
        if work is None:
            return False
        current = work.acknowledged or self.ledger.rows[shard_id].checkpoint
        work.acknowledged = further(current, position)
        work.as_of = as_of or work.as_of
        return True

    def note_gap(self, shard_id: str, epoch: int, gap: str) -> bool:
        """Note what was lost of a shard that goes on; False if it is not mine."""
        work = self._working_on(shard_id, epoch)
        if work is not None:
            work.gap = gap
        return work is not None

    def end(self, shard_id: str, epoch: int) -> bool:
        """Note that a shard was processed to its end, durably; False if it is not mine."""
        work = self._working_on(shard_id, epoch)
        if work is not None:
            work.ended = True
        return work is not None

    def finish(self, shard_id: str, epoch: int) -> bool:
        """Note that nothing runs in a shard that was to be finished; False if it is not mine."""
        work = self._working_on(shard_id, epoch)
        if work is not None and shard_id in self._handovers.giving:
            work.finished = True
        return work is not None

    def sign(self, now: float) -> None:
        """Note that the consumer is at work: without that, a worker with a limit stops."""
        self._signed_at = now

    # --- what to read -----------------------------------------------------------------------

    def wanted_rows(self, now: float, budget: int) -> list[str]:
        """Return the rows to read consistently, the most urgent first, at most `budget`."""
        ledger = self.ledger
        wanted = dict.fromkeys(sorted(self._unverified))
        wanted.update(dict.fromkeys(self._handovers.asked_at))
        if self.working(now) and not self.leaving:
            wanted.update(dict.fromkeys(self._dealing.worth_reading(ledger, self.peers, now)))
        wanted.update(dict.fromkeys(ledger.missing()))
        wanted.update(dict.fromkeys(sorted(self._missed)))
        wanted.update(dict.fromkeys(sorted(self.mine)))
        wanted.update(dict.fromkeys(ledger.awaited))
        return list(wanted)[:budget]

    def must_scan(self, budget: int) -> bool:
        """Say whether reading all rows is worth it: too many are unknown, or I lack my share."""
        return len(self.ledger.missing()) > budget or self.must_read or self._handovers.short

    def unknown_shards(self) -> list[str]:
        """Return the shards to ask the service for, one by one."""
        return [i for i in self.ledger.undiscovered if i not in self.ledger.gone]

    # --- what to do -------------------------------------------------------------------------

    def renewal(self, now: float) -> Renew | RequestHandover | None:
        """Return the heartbeat to write, if it is time."""
        if self._signed_at is None:
            self._signed_at = now
        self._notice_lapse(now)
        asks = tuple(sorted(self._handovers.asked_at))
        asked = self._beat_stored is not None and not set(asks) <= set(self._beat.asks)
        due = now - self._renewed_at >= self.times.renew_seconds
        left = self.leaving and not self._beat.leaving
        if not (due or asked or left) or self._stalled(now):
            return None
        new = replace(
            self._beat,
            count=self._beat.count + 1,
            held=len(self.mine),
            leaving=self.leaving,
            asks=asks,
        )
        return (RequestHandover if asked else Renew)(new, self._beat_stored)

    def decide(self, now: float, today: datetime) -> list[Instruction]:
        """Return what to write now; `today` is a wall clock, for retention periods only."""
        self._notice_lapse(now)
        instructions: list[Instruction] = []
        if self.working(now) and self.header is not None:
            if not self.leaving:  # first: what has no owner stands still, what was done does not
                instructions.extend(self._share(self.header, now))
                retention = self.times.retention_seconds
                instructions.extend(clean(self.ledger, self.peers, retention, now, today))
            instructions.extend(self._saves(now))
            if self._stirred and not instructions:
                instructions.append(Bump())
        return instructions or [Wait()]

    def tell(self, now: float) -> list[Start | Finish | Yield]:
        """Return what to tell the consumer: what changed since it was told last."""
        self._notice_lapse(now)
        mine = set() if self.leaving else set(self.mine)
        self._handovers.promise(mine, self._told, self.peers)
        return list(self._tell(now))

    def goodbye(self) -> Forget | None:
        """Return the last write of a worker that has left."""
        return Forget(self._beat_stored) if self._beat_stored is not None else None

    # --- what became of it ------------------------------------------------------------------

    def done(self, did: Instruction, now: float, header: Header | None = None) -> None:
        """Tell that a write succeeded. `now` is when it was *sent*; a bump returns the header."""
        match did:
            case Renew(new) | RequestHandover(new):
                self._beat = self._beat_stored = new
                self._renewed_at = now
                self._restraint.renewed(now)
            case Bump() if header is not None:
                self._stirred = False
                self.saw_header(header)
                self._making.moved(header, now)
            case Create(new) | Take(new) | Save(new) | Release(new):
                self._note(now, said(did))
                self.ledger.remember(new)
                self._fresh.add(new.shard_id)
                self._after_write(new, now)
                if isinstance(did, Create):
                    self._restraint.made()
                if isinstance(did, Take):
                    work = self._work[new.shard_id]
                    work.taken_at_epoch = did.expected.epoch
                    work.saved_at -= self.times.checkpoint_seconds * phase(new.shard_id)
            case Delete(row):
                self.ledger.deleted(row.shard_id)
            case Forget(beat):
                self.peers.forget(beat.worker)
            case _:
                pass

    def refused(
        self, did: Instruction, current: LeaseRow | Heartbeat | Header | None, now: float
    ) -> None:
        """Tell that a write found something else: memory follows the table."""
        match did, current:
            case (Create(new) | Take(new) | Save(new) | Release(new), LeaseRow()) if current == new:
                self.done(did, now)  # an earlier answer was lost: it is my own write
            case (_, LeaseRow()):
                self._note(
                    now, f"refused: {said(did)}; {current.lease_owner} is at {current.version}"
                )
                self.ledger.remember(current)
                self._fresh.add(current.shard_id)
            case (Create(new) | Take(new) | Save(new) | Release(new), None):
                self._note(now, f"the row of {new.shard_id} is gone")
                self.ledger.missed(new.shard_id)
                self.ledger.outdated.pop(new.shard_id, None)
            case (Delete(row), None):
                self.ledger.deleted(row.shard_id)
            case (Renew() | RequestHandover(), Heartbeat() | None):
                self._beat_stored = current  # mine, with its answer lost; or deleted by somebody
                if current is not None:
                    self._beat = replace(self._beat, count=max(current.count, self._beat.count))
            case (Forget(beat), None):
                self.peers.forget(beat.worker)
            case (Bump(), Header()):
                self.saw_header(current)
            case _:
                pass

    def unanswered(self, did: Instruction, now: float) -> None:
        """Tell that nobody knows whether a write happened: the row is read before going on."""
        match did:
            case Create(new) | Take(new) | Save(new) | Release(new) | Delete(new):
                self._note(now, f"no answer to: {said(did)}")
                self._unverified.add(new.shard_id)
            case _:
                pass

    # --- what is mine -----------------------------------------------------------------------

    @property
    def mine(self) -> Collection[str]:
        """The shards whose rows name me, as far as I know."""
        return self.ledger.owned.get(self.owner, ())

    @property
    def unowned(self) -> int:
        """How many shards nobody has room for, because of capacities."""
        return self._dealing.unowned

    def working(self, now: float) -> bool:
        """Say whether this worker may act at all: it renewed recently enough."""
        return now < self._renewed_at + self.times.stop_seconds and not self._stalled(now)

    def held(self, now: float) -> dict[str, Held]:
        """Return the leases that I may work under at this moment."""
        held: dict[str, Held] = {}
        for shard_id in sorted(self.mine) if self.working(now) else ():
            row, work = self.ledger.rows[shard_id], self._work.get(shard_id)
            if shard_id in self._unverified:
                continue
            if work is None or work.epoch != row.epoch:
                held[shard_id] = Held(row.epoch, row.checkpoint, row.as_of, finishing=False)
            elif not work.ended:
                position = work.acknowledged or row.checkpoint
                finishing = shard_id in self._handovers.giving
                held[shard_id] = Held(row.epoch, position, work.as_of or row.as_of, finishing)
        return held

    def succeeds(self, shard_id: str, epoch: int) -> bool:
        """Say whether I hold a shard by a take that was conditional on this epoch."""
        row, work = self.ledger.rows.get(shard_id), self._work.get(shard_id)
        mine = row is not None and row.lease_owner == self.owner and not row.completed
        return mine and work is not None and work.taken_at_epoch == epoch

    def claim(self, shard_id: str, epoch: int) -> Take | None:
        """Return the take with which a new incarnation goes on under exactly this epoch."""
        row = self.ledger.rows.get(shard_id)
        if row is None or row.completed or row.epoch != epoch or self.leaving:
            return None
        if row.lease_owner is not None and row.lease_owner not in self.peers.predecessors:
            return None
        return Take(taken(row, self.owner), row)

    # --- for tests and error messages -------------------------------------------------------

    def validate(self) -> None:
        """Raise AssertionError if what this worker knows contradicts itself."""
        problems = self.ledger.contradictions()
        if not self._handovers.giving.keys() <= self._told.keys():
            problems.append("promises what it does not work on")
        if problems:
            raise AssertionError(f"{self.owner}: {'; '.join(problems)}\n{self.story()}")

    def story(self, shard_id: str = "") -> str:
        """Tell the last things that happened here, a line each; of one shard if it is named."""
        return "\n".join(line for line in self._story if shard_id in line)

    # --- the rules --------------------------------------------------------------------------

    def _stalled(self, now: float) -> bool:
        limit, signed = self.times.stall_seconds, self._signed_at
        return limit is not None and signed is not None and now - signed > limit

    def _notice_lapse(self, now: float) -> None:
        lapsed = set() if self.working(now) else set(self.mine) - self._unverified
        if lapsed:
            self._note(now, f"could not renew in time: stopped {', '.join(sorted(lapsed))}")
            self._unverified |= lapsed
            self._making.doubtful |= lapsed

    def _working_on(self, shard_id: str, epoch: int) -> Work | None:
        row, work = self.ledger.rows.get(shard_id), self._work.get(shard_id)
        mine = row is not None and row.lease_owner == self.owner and row.epoch == epoch
        return work if mine and work is not None and work.epoch == epoch else None

    def _saves(self, now: float) -> Iterator[Instruction]:
        """Write down what was done: now and then, and at once when a lease ends."""
        for shard_id in sorted(set(self.mine) - self._unverified):
            row = self.ledger.rows[shard_id]
            work = self._working_on(shard_id, row.epoch) or Work(row.epoch, now)
            given_to = self._handovers.giving.get(shard_id) if work.finished else None
            due = now - work.saved_at >= self.times.checkpoint_seconds
            if not (due or work.ended or work.gap or self.leaving or given_to):
                continue
            new = with_gap(row, work.gap)
            if work.acknowledged is not None:
                new = advanced(new, work.acknowledged, work.as_of)
            if work.ended:
                yield Save(finished(row, new.gap), row)
            elif self.leaving or given_to:
                yield Release(one_write(released(new, given_to), row), row)
            elif new is not row:
                yield Save(one_write(new, row), row)
        for shard_id in self.ledger.gaps if self._goes_on_after_gaps else ():
            row = self.ledger.rows[shard_id]
            free = row.lease_owner is None or self.peers.dead(row.lease_owner)
            if row.lease_owner == self.owner or (free and self.peers.on_duty(shard_id)):
                gap = f"{shard_id} vanished from the stream; it was read up to {row.checkpoint}"
                yield Save(finished(row, gap), row)

    def _share(self, header: Header, now: float) -> Iterator[Instruction]:
        """Make what is missing, take what is free, and ask for the rest of my share."""
        made = self._making.make(header, self.ledger, self.peers, now)
        yield from islice(made, self._restraint.most_to_make(now))
        most = self._restraint.most_to_take(len(self.mine), now)
        chosen = self._dealing.mine(self.ledger, self.peers, now)[:most]
        takes = [i for i in chosen if i in self._fresh and i not in self._unverified]
        self.must_read = len(takes) < len(chosen)
        for shard_id in takes:
            row = self.ledger.rows[shard_id]
            yield Take(taken(row, self.owner), row)
        if not chosen:
            loads, level = self._dealing.loads(self.ledger, self.peers)
            self._handovers.ask(self.ledger, self.peers, loads, level.level, now)

    def _tell(self, now: float) -> Iterator[Start | Finish | Yield]:
        held = self.held(now)
        for shard_id, (epoch, _) in list(self._told.items()):
            lease = held.get(shard_id)
            if lease is None or lease.epoch != epoch:
                del self._told[shard_id]
                self._handovers.giving.pop(shard_id, None)
                if self._working_on(shard_id, epoch) is None:
                    self._work.pop(shard_id, None)
                yield Yield(shard_id, epoch)
        for shard_id, lease in held.items():
            told = self._told.get(shard_id)
            if told is None or (told[1] and not lease.finishing):
                self._work_on(shard_id, lease.epoch, now).finished = False
                yield Start(shard_id, lease.epoch, lease.checkpoint)
            elif lease.finishing and not told[1]:
                yield Finish(shard_id, lease.epoch)
            self._told[shard_id] = (lease.epoch, lease.finishing)

    def _work_on(self, shard_id: str, epoch: int, now: float) -> Work:
        work = self._work.get(shard_id)
        if work is None or work.epoch != epoch:
            work = self._work[shard_id] = Work(epoch, saved_at=now)
        return work

    def _after_write(self, new: LeaseRow, now: float) -> None:
        shard_id = new.shard_id
        if new.lease_owner == self.owner:
            work = self._work_on(shard_id, new.epoch, now)
            work.saved_at = now
            if work.acknowledged == new.checkpoint:
                work.acknowledged = None
            if work.gap in new.gap:
                work.gap = ""
        elif shard_id in self._work:
            del self._work[shard_id]
            self._stirred = True

    def _note(self, now: float, text: str) -> None:
        self._story.append(f"{now:9.2f} {self.owner}: {text}")
