"""Runs the rules of leasing against a lease table and a stream: one thin actor per worker.

The rules are in `core.leasing.state`; here are only the calls. All that talks to the outside is
a generator that yields one call after the other, so that the same code runs in a thread (each
call made at once) and in a simulator (each call made, delayed, repeated or lost at will).

What is read: the header row about once a second; on every renewal, and when the header's counter
moved, all heartbeats, one page of rows on patrol, and a bounded number of single rows that
matter now. So reads grow with the number of workers, never with the number of shards. The whole
table is read at the start, and by a worker that lacks its share or finds taken what it believed
to be free.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from shardline.core.leasing.instructions import Finish, Instruction, Start, Wait, Yield
from shardline.core.leasing.rows import EPOCHS_PER_MOVE, Header
from shardline.core.leasing.state import LeaseState
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime, Latest, Position, TrimHorizon
from shardline.errors import GapError, LeaseLost, ServiceError
from shardline.leases.port import Conflict, LeaseTable, TableUnavailable
from shardline.leases.writes import write_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.core.leasing.rows import LeaseRow
    from shardline.core.leasing.times import LeaseTimes
    from shardline.core.leasing.work import Held
    from shardline.services.port import StreamService

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Call = Callable[[], Any]
Steps = Generator[Call, Any, Result]
"""Yields calls to make and is sent their results; what they raise is thrown in."""

RELIST_SECONDS: Final = 1.0
LIST_SECONDS: Final = 10.0
DESCRIBE_SECONDS: Final = 60.0
PATROL_ROWS: Final = 200
WANTED_ROWS: Final = 300
_ROUNDS_PER_TICK: Final = 6
_READS_PER_TICK: Final = 3
_SCAN_ROWS: Final = 1000
_TRIES_TO_LEAVE: Final = 3


class ShardWork(Protocol):
    """What a worker does with its leases. Called from the coordinator's thread; return soon.

    While the table hangs that thread hangs with it: ask `Coordinator.holds` before each batch.
    """

    def start(self, shard_id: str, epoch: int, checkpoint: Position) -> None:
        """Work on a shard from its checkpoint on; or go on with it, after a `finish`."""

    def finish(self, shard_id: str, epoch: int) -> None:
        """Begin nothing new in a shard, and call `Coordinator.finish` when nothing runs in it."""

    def stop(self, shard_id: str, epoch: int) -> None:
        """Stop at once: the lease is gone, or is about to be given back."""


class Coordinator:
    """One worker's leases on one stream. Use it from any thread."""

    def __init__(
        self,
        table: LeaseTable,
        service: StreamService,
        app_name: str,
        stream_name: str,
        worker: str,
        *,
        start: TrimHorizon | Latest | AtTime = TRIM_HORIZON,
        times: LeaseTimes | None = None,
        capacity: int | None = None,
        goes_on_after_gaps: bool = False,
        work: ShardWork | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        incarnation: str | None = None,
    ) -> None:
        self._table = table
        self._service = service
        self._space = (app_name, stream_name)
        self._start = start
        self._goes_on_after_gaps = goes_on_after_gaps
        self._work = work
        self._clock = clock
        self._today = today
        self.leasing: Final = LeaseState(
            app_name,
            stream_name,
            f"{worker}/{incarnation or uuid.uuid4().hex}",
            times=times,
            capacity=capacity,
            goes_on_after_gaps=goes_on_after_gaps,
        )
        self._joined = False
        self._moves_seen = -1
        self._looked_at = self._listed_at = self._described_at = float("-inf")
        self._scanned_at = float("-inf")
        self._patrol_after: str | None = None
        self._warned_of = 0
        self._lock = RLock()
        self._turn = RLock()
        self._wake = Event()
        self._stopping = Event()
        self._thread: Thread | None = None

    @property
    def owner(self) -> str:
        """Who I am in the table: the worker's name, and this incarnation."""
        return self.leasing.owner

    # --- for whoever works on the shards ----------------------------------------------------

    def held(self) -> dict[str, Held]:
        """Return the leases that may be worked under right now, each with where to go on."""
        with self._lock:
            now = self._clock()
            self.leasing.sign(now)
            gaps = [] if self._goes_on_after_gaps else self.leasing.ledger.gaps
            if gaps:
                row = self.leasing.ledger.rows[gaps[0]]
                raise GapError(
                    f"{row.shard_id} of {row.stream_name} vanished before it was read to its end "
                    f"(read up to {row.checkpoint}): its unread records are lost; "
                    "set failOnDataLoss to false to record the gap and go on"
                )
            return self.leasing.held(now)

    def holds(self, shard_id: str, epoch: int) -> bool:
        """Say whether a batch under this epoch may still be handed out: ask before each one."""
        with self._lock:
            lease = self.leasing.held(self._clock()).get(shard_id)
            return lease is not None and lease.epoch == epoch

    def checkpoint(
        self, shard_id: str, epoch: int, position: Position, as_of: datetime | None = None
    ) -> None:
        """Acknowledge a shard up to a position; written down soon. Raises `LeaseLost`."""
        with self._lock:
            self.leasing.sign(self._clock())
            self._require(self.leasing.acknowledge(shard_id, epoch, position, as_of), shard_id)

    def record_gap(self, shard_id: str, epoch: int, gap: str) -> None:
        """Keep in words what was lost of a shard that goes on; at once. Raises `LeaseLost`."""
        with self._lock:
            self.leasing.sign(self._clock())
            self._require(self.leasing.note_gap(shard_id, epoch, gap), shard_id)
        self._wake.set()

    def complete(self, shard_id: str, epoch: int) -> None:
        """Acknowledge a shard to its end; written down at once. Raises `LeaseLost`."""
        with self._lock:
            self.leasing.sign(self._clock())
            self._require(self.leasing.end(shard_id, epoch), shard_id)
        self._wake.set()

    def finish(self, shard_id: str, epoch: int) -> None:
        """Say that nothing runs in a shard that somebody waits for. Raises `LeaseLost`."""
        with self._lock:
            self.leasing.sign(self._clock())
            self._require(self.leasing.finish(shard_id, epoch), shard_id)
        self._wake.set()

    def resume(self, epochs: Mapping[str, int]) -> frozenset[str]:
        """Take over from the last incarnation of my name, at once; return what could be.

        Of the given shards those whose take was conditional on the given epoch: nobody else had
        them in between. Ask before the first work of a new process; blocks on the table.
        """
        return self._run(self.resume_steps(epochs))

    def tick(self) -> None:
        """Look and act once. `start` does it in a thread, again and again."""
        self._run(self.tick_steps())

    def rest_seconds(self) -> float:
        """Return how long to wait until the next tick: not past the moment when one is dead."""
        with self._lock:
            now = self._clock()
            suspect_in_seconds = self.leasing.peers.next_suspect_at(now) - now
            return min(self.leasing.times.tick_seconds, suspect_in_seconds)

    def start(self) -> None:
        """Tick in a thread until `leave`."""
        self._thread = Thread(target=self._loop, name=f"leases of {self.owner}", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Stop working, write down what was acknowledged, give everything back, and say so."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._run(self.leave_steps())

    # --- the same as steps, for a simulator -------------------------------------------------

    def tick_steps(self) -> Steps[None]:
        """Look, write, and tell the consumer; what fails is tried again at the next tick."""
        try:
            if not self._joined:
                yield from self._join()
            yield from self._renew()
            yield from self._look()
            yield from self._act()
        except (TableUnavailable, ServiceError) as error:
            logger.warning("%s: %s; trying again in a moment", self.owner, error)
        self._tell()

    def resume_steps(self, epochs: Mapping[str, int]) -> Steps[frozenset[str]]:
        """See `resume`."""
        leasing = self.leasing
        if not self._joined:
            yield from self._join()
        yield from self._renew()
        rows = yield partial(self._table.read_rows, *self._space, tuple(epochs))
        leasing.read_rows(tuple(epochs), rows, self._clock())
        for shard_id, epoch in epochs.items():
            take = leasing.claim(shard_id, epoch)
            if take is not None and leasing.working(self._clock()):
                yield from self._write(take)
        self._tell()
        now = self._clock()
        return frozenset(
            i for i, e in epochs.items() if leasing.succeeds(i, e) and i in leasing.held(now)
        )

    def leave_steps(self) -> Steps[None]:
        """See `leave`."""
        leasing = self.leasing
        if leasing.leaving and not leasing.mine:
            return
        leasing.leaving = True
        leasing.sign(self._clock())
        if self._work is not None:
            for shard_id, lease in leasing.held(self._clock()).items():
                self._work.stop(shard_id, lease.epoch)
        for _ in range(_TRIES_TO_LEAVE if self._joined else 0):
            try:
                yield from self._renew()
                yield from self._read_wanted()
                yield from self._act()
                goodbye = leasing.goodbye()
                if goodbye is not None and not leasing.mine:
                    yield from self._write(goodbye)
                break
            except TableUnavailable as error:
                logger.warning("%s could not give its leases back: %s", self.owner, error)
        self._tell()

    # --- parts of a tick --------------------------------------------------------------------

    def _join(self) -> Steps[None]:
        """Find the stream and the table, and read everything once, before the first heartbeat."""
        table, leasing = self._table, self.leasing
        yield table.prepare
        rows = yield from self._scan()
        generation = max((row.epoch // EPOCHS_PER_MOVE for row in rows), default=0)
        yield from self._find_stream(generation, known=bool(rows))
        leasing.saw_rows(rows, None, None)
        beats = yield partial(table.read_heartbeats, *self._space)
        owners = {row.lease_owner for row in rows if row.lease_owner}
        leasing.peers.meet(owners | {beat.worker for beat in beats})
        leasing.saw_heartbeats(beats, self._clock())
        shards = yield self._service.list_shards
        leasing.saw_listing(shards)
        self._listed_at = self._clock()
        self._joined = True
        logger.info("%s joined: %d shards, %d rows", self.owner, len(shards), len(rows))

    def _scan(self) -> Steps[list[LeaseRow]]:
        """Read all rows: at the start, and when knowledge of single rows is not enough."""
        rows: list[LeaseRow] = []
        after: str | None = None
        while True:
            page = yield partial(self._table.scan_rows, *self._space, after, _SCAN_ROWS)
            rows.extend(page.rows)
            after = page.next_after
            if after is None:
                self._scanned_at = self._clock()
                return rows

    def _find_stream(self, generation: int = 0, *, known: bool = False) -> Steps[None]:
        """Describe the stream, and make or replace its header row where that is due."""
        description = yield self._service.describe
        if not description.active:
            raise ServiceError(f"{self._space[1]} is not active yet")
        self._described_at = self._clock()
        stored: Header | None = yield partial(self._table.read_header, *self._space)
        if stored is None or stored.stream_created_at < description.created_at:
            seen = stored or self.leasing.header
            moves = max(generation, seen.moves if seen else 0)
            header = Header(*self._space, description.created_at, TRIM_HORIZON, moves=moves + 1)
            if seen is not None and seen.stream_created_at == description.created_at:
                # Somebody deleted it. Others moved it on since I read it, but not that often.
                header = replace(seen, moves=moves + EPOCHS_PER_MOVE)
            elif stored is None:
                start = yield from self._resolve_start()
                header = replace(header, start=start, settled=known)
            try:
                yield partial(self._table.create_header, header, stored)
            except Conflict as conflict:
                if not isinstance(conflict.current, Header):
                    raise TableUnavailable("the header row changes under our hands") from conflict
                header = conflict.current
            stored = header
        self.leasing.saw_header(stored)

    def _resolve_start(self) -> Steps[TrimHorizon | AtTime]:
        """Turn "latest" into a time of the service, once for all workers."""
        if not isinstance(self._start, Latest):
            return self._start
        shards = yield self._service.list_shards
        newest = next((s.id for s in reversed(shards) if not s.closed), None)
        if newest is None:
            raise ServiceError(f"{self._space[1]} has no open shard yet")
        iterator = yield partial(self._service.open, newest, LATEST)
        page = yield partial(self._service.read, iterator, 1)
        return AtTime(page.service_time)

    def _renew(self) -> Steps[None]:
        for _ in range(3):  # a refusal shows what is stored: mine, with a lost answer; or nothing
            renewal = self.leasing.renewal(self._clock())
            if renewal is None:
                return
            yield from self._write(renewal)

    def _look(self) -> Steps[None]:
        """Read what may have changed, within the budget."""
        table, leasing, space = self._table, self.leasing, self._space
        header = yield partial(table.read_header, *space)
        if header is None or header.stream_created_at != self._created_at():
            yield from self._find_stream()
            self._listed_at = float("-inf")
        else:
            leasing.saw_header(header)
        moves = leasing.header.moves if leasing.header else -1
        moved, self._moves_seen = moves != self._moves_seen, moves
        due = self._clock() - self._looked_at >= leasing.times.renew_seconds
        if not (due or moved or leasing.peers.suspects(self._clock())):
            return
        beats = yield partial(table.read_heartbeats, *space)
        leasing.saw_heartbeats(beats, self._clock())
        for worker in leasing.peers.suspects(self._clock()):
            beat = yield partial(table.read_heartbeat, *space, worker)
            leasing.read_heartbeat(worker, beat, self._clock())
        scan_due = self._clock() - self._scanned_at >= leasing.times.renew_seconds
        if scan_due and leasing.must_scan(WANTED_ROWS):
            leasing.saw_rows((yield from self._scan()), None, None)
        else:
            after = self._patrol_after
            page = yield partial(table.scan_rows, *space, after, PATROL_ROWS)
            self._patrol_after = page.next_after
            leasing.saw_rows(page.rows, after, page.next_after)
        yield from self._list(moved)
        yield from self._read_wanted()
        self._looked_at = self._clock()

    def _read_wanted(self) -> Steps[None]:
        wanted = self.leasing.wanted_rows(self._clock(), WANTED_ROWS)
        if wanted:
            rows = yield partial(self._table.read_rows, *self._space, wanted)
            self.leasing.read_rows(wanted, rows, self._clock())

    def _list(self, moved: bool) -> Steps[None]:
        leasing = self.leasing
        due = RELIST_SECONDS if moved or leasing.ledger.holes else LIST_SECONDS
        if self._clock() - self._listed_at < due:
            return
        shards = yield self._service.list_shards
        self._listed_at = self._clock()
        leasing.saw_listing(shards)
        for hole in leasing.ledger.holes:
            logger.warning(
                "the listing of %s does not cover %s: listing again", self._space[1], hole
            )
        if leasing.unknown_shards() or self._clock() - self._described_at >= DESCRIBE_SECONDS:
            yield from self._find_stream()  # before anything is called gone: is it the same stream?
        for shard_id in leasing.unknown_shards():
            if not (yield partial(self._service.has_shard, shard_id)):
                leasing.ledger.not_found(shard_id)

    def _act(self) -> Steps[None]:
        """Write what the rules say, until there is nothing more to write."""
        leasing, reads = self.leasing, 0
        for _ in range(_ROUNDS_PER_TICK):
            decided = leasing.decide(self._clock(), self._today())
            if leasing.must_read and reads < _READS_PER_TICK:
                reads += 1
                yield from self._read_wanted()
                continue
            if isinstance(decided[0], Wait):
                break
            for instruction in decided:
                yield from self._renew()
                if not leasing.working(self._clock()):
                    return
                yield from self._write(instruction)
        yield from self._renew()
        if leasing.unowned != self._warned_of:
            self._warned_of = leasing.unowned
            logger.warning(
                "%d shards of %s have no owner: every worker is at its capacity; add workers",
                leasing.unowned,
                self._space[1],
            )

    def _write(self, instruction: Instruction) -> Steps[None]:
        sent_at = self._clock()
        header: Header | None = None
        try:
            header = yield write_of(instruction, self._table, self.leasing.header)
        except Conflict as conflict:
            self.leasing.refused(instruction, conflict.current, self._clock())
        except TableUnavailable:
            self.leasing.unanswered(instruction, self._clock())
            raise
        else:
            self.leasing.done(instruction, sent_at, header)

    def _tell(self) -> None:
        for word in self.leasing.tell(self._clock()):
            if self._work is None:
                continue
            match word:
                case Start(shard_id, epoch, checkpoint):
                    self._work.start(shard_id, epoch, checkpoint)
                case Finish(shard_id, epoch):
                    self._work.finish(shard_id, epoch)
                case Yield(shard_id, epoch):
                    self._work.stop(shard_id, epoch)

    # --- running ----------------------------------------------------------------------------

    def _run(self, steps: Steps[Result]) -> Result:
        """Make each call at once; the lock is free while a call is under way."""
        with self._turn:
            send: Callable[[], Call] = partial(next, steps)
            while True:
                try:
                    with self._lock:
                        call = send()
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
                try:
                    send = partial(steps.send, call())
                except Exception as error:
                    send = partial(steps.throw, error)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self.tick()
            except Exception:
                logger.exception("%s: a tick failed; trying again", self.owner)
            self._wake.wait(self.rest_seconds())

    def _created_at(self) -> datetime | None:
        return self.leasing.header.stream_created_at if self.leasing.header else None

    def _require(self, mine: bool, shard_id: str) -> None:
        if not mine:
            story = self.leasing.story(shard_id) or "it was never held here"
            raise LeaseLost(
                f"{shard_id} is not {self.owner}'s under this epoch any more: drop its batch. "
                f"What happened:\n{story}"
            )
