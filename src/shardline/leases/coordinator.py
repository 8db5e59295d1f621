"""One worker's leases on one stream, for the code that processes its shards.

The rules are in `core.leasing.state`. Three actors make the calls, each in a thread of its own, so
that none delays another: `heartbeats` renews, `row_rounds` reads and writes rows, `listings` asks
the service which shards there are. Each is written as steps: a simulator runs the same code.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from datetime import UTC, datetime
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, Final

from shardline.core.leasing import events as e
from shardline.core.leasing.parked_keys import MOST_PARKED_KEYS, ParkedKey
from shardline.core.leasing.state import LeaseState
from shardline.core.positions import TRIM_HORIZON, AtTime, Latest, Position, TrimHorizon
from shardline.errors import GapError, LeaseLost
from shardline.leases.heartbeats import Heartbeats
from shardline.leases.listings import Listings
from shardline.leases.member import Member, ShardWork
from shardline.leases.port import Conflict, LeaseTable, TableUnavailable
from shardline.leases.row_rounds import Origin, RowRounds
from shardline.leases.table_streams import TableStreams
from shardline.services.clock import boot_seconds
from shardline.services.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardline.core.leasing.holdings import Held
    from shardline.core.leasing.own_heartbeat import Summary
    from shardline.core.leasing.runs import RunState
    from shardline.core.leasing.times import LeaseTimes
    from shardline.services.port import StreamService
    from shardline.services.steps import Steps

__all__ = ["Coordinator", "Origin", "ShardWork", "TooManyParkedKeys"]

logger = logging.getLogger(__name__)

_TRIES_TO_LEAVE: Final = 3
_MINUTE_SECONDS: Final = 60


class TooManyParkedKeys(Exception):
    """A shard has as many parked keys as it may have: halt it."""


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
        expect_app: bool = False,
        work: ShardWork | None = None,
        clock: Callable[[], float] = boot_seconds,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        run_id: str | None = None,
        attempt: str | None = None,
        open_from: Callable[[datetime], StreamService] | None = None,
    ) -> None:
        """Create a member of an app; `start` it to begin.

        `worker` is a name for people; with `attempt` (a UUID by default) it is unique. With a
        `run_id` nothing is taken before the row of that run was found in the table. `open_from`
        opens the first stream of a table that was created then or later.
        """
        self.state: Final = LeaseState(
            app_name,
            stream_name,
            f"{worker}/{attempt or uuid.uuid4().hex}",
            times=times,
            capacity=capacity,
            goes_on_after_gaps=goes_on_after_gaps,
            run_id=run_id,
        )
        self._member: Final = Member(self.state, table, (app_name, stream_name), work, clock, today)
        self._heartbeats: Final = Heartbeats(self._member, run_id)
        self._member.has_streams = open_from is not None
        table_streams = TableStreams(self._member, open_from) if open_from else None
        self._listings: Final = Listings(self._member, service, table_streams)
        self._rows: Final = RowRounds(
            self._member,
            start,
            expect_app=expect_app,
            time_resolution_seconds=1 if service.finds_times else _MINUTE_SECONDS,
        )
        self._goes_on_after_gaps = goes_on_after_gaps
        self._released = False
        self._lock: Final = _Turn(self._member)
        self._wakes: dict[str, Event] = {}
        self._member.wake = self._wake
        self._threads: list[Thread] = []

    @property
    def owner(self) -> str:
        """The worker's name in the table, unique for each attempt."""
        return self.state.owner

    # --- for the code that processes the shards ---------------------------------------------

    def held(self) -> Mapping[str, Held]:
        """Return the leases that may be worked under right now. Raises what ends this worker."""
        with self._lock.quiet:
            error = self.error()
            if error is not None:
                raise error
            return self.state.held(self._member.clock())

    def valid_until(self) -> float:
        """Return until when, on the clock of this worker, held leases may be worked under."""
        with self._lock.quiet:
            return self.state.heartbeat.valid_until

    def holds(self, shard_id: str, epoch: int) -> bool:
        """Return true if a delivery under this epoch may begin: ask before each one."""
        with self._lock.quiet:
            return self.state.at_work(shard_id, epoch, self._member.clock())

    def checkpoint(
        self,
        shard_id: str,
        epoch: int,
        position: Position,
        as_of: datetime | None = None,
        lag_ms: int | None = None,
    ) -> None:
        """Acknowledge a shard up to a position; written down soon. Raises `LeaseLost`.

        Where work ended before without an acknowledgement, it is written down now: a worker that is
        killed a moment later must not make it look as if nothing had been done again.
        """
        self._report(e.Acknowledged(shard_id, epoch, position, as_of, lag_ms))
        row = self.state.ledger.rows.get(shard_id)
        if row is not None and row.starts > 1:
            self._wake("rows")

    def note_gap(self, shard_id: str, epoch: int, text: str) -> None:
        """Record what was lost of a shard that goes on; written at once. Raises `LeaseLost`."""
        self._report(e.GapNoted(shard_id, epoch, text))
        self._wake("rows")

    def complete(self, shard_id: str, epoch: int) -> None:
        """Acknowledge a shard to its end. Raises `LeaseLost`.

        Written when a listing made after this call shows the shard closed; if listings go on
        showing it open, work on it is started again.
        """
        self._report(e.ShardEnded(shard_id, epoch))
        self._wake("listings")

    def finish(self, shard_id: str, epoch: int) -> None:
        """Report that nothing runs in a shard that was to be finished. Raises `LeaseLost`."""
        self._report(e.ShardFinished(shard_id, epoch))
        self._wake("rows")

    def restart(self, shard_id: str, epoch: int, *, counted: bool = True) -> None:
        """Report that work ended by itself: the lease is taken anew, then work starts again.

        If it is counted, it is a start without success; after `LeaseTimes.most_starts` of them the
        shard is halted.
        """
        self._report(e.ShardRestarted(shard_id, epoch, counted))
        self._wake("rows")

    def give_up(self, shard_id: str, epoch: int, reason: str) -> None:
        """Release a shard on which work hangs, and do not take it again here for a while."""
        self._report(e.ShardGivenUp(shard_id, epoch, reason))
        self._wake("rows")

    def halt(self, shard_id: str, epoch: int, reason: str) -> None:
        """Release a shard and mark it: nobody takes it until the mark is cleared by hand."""
        self._report(e.ShardHalted(shard_id, epoch, reason))
        self._wake("rows")

    def summarize(self, summary: Summary) -> None:
        """Set what the next heartbeats report of this worker."""
        with self._lock.quiet:
            self._member.handle(e.Summarized(summary))

    # --- parked keys: these calls block on the table ----------------------------------------

    def parked(self, shard_id: str) -> frozenset[str]:
        """Return the parked keys of a shard, inherited ones included, as of its start."""
        with self._lock.quiet:
            holding = self.state.holdings.by_shard.get(shard_id)
            return (holding.parked if holding is not None else None) or frozenset()

    def park(self, shard_id: str, epoch: int, key: str, letter_id: str) -> None:
        """Park a key, durably, after its letter and before the checkpoint. Raises `LeaseLost`.

        Raises `TooManyParkedKeys` if the shard has no room for another.
        """
        self._require(self.holds(shard_id, epoch), shard_id)
        keys = self.parked(shard_id)
        if key not in keys and len(keys) >= MOST_PARKED_KEYS:
            raise TooManyParkedKeys(
                f"{shard_id} has {len(keys)} parked keys, and no more are kept for one shard"
            )
        table, space = self._member.table, self._member.space
        try:
            table.park_key(ParkedKey(*space, shard_id, key, letter_id, epoch), self.owner)
        except Conflict as conflict:
            self._require(False, shard_id, conflict)
        self._set_parked(shard_id, epoch, keys | {key})

    def unpark(self, shard_id: str, epoch: int, key: str, letter_id: str) -> None:
        """Delete a parked key whose letters were redelivered up to this one. Raises `LeaseLost`."""
        self._require(self.holds(shard_id, epoch), shard_id)
        table, space = self._member.table, self._member.space
        try:
            table.unpark_key(ParkedKey(*space, shard_id, key, letter_id, epoch), self.owner)
        except Conflict as conflict:
            self._require(False, shard_id, conflict)
        rows = table.read_parked_keys(*space, (shard_id,))
        self._set_parked(shard_id, epoch, frozenset(row.key for row in rows))

    # --- how it is going --------------------------------------------------------------------

    @property
    def origin(self) -> Origin | None:
        """Whether the app or its table is new, and where it begins; None until that is known."""
        return self._rows.origin

    def error(self) -> Exception | None:
        """Return why this worker cannot go on; None while it can."""
        if self._member.error is not None:
            return self._member.error
        gaps = [] if self._goes_on_after_gaps else self.state.ledger.gaps
        if not gaps:
            return None
        row = self.state.ledger.rows[gaps[0]]
        return GapError(
            f"{row.shard_id} of {row.stream_name} vanished before it was read to its end "
            f"(read up to {row.checkpoint}): its unread records are lost; "
            "set failOnDataLoss to false to record the gap and go on"
        )

    def run_state(self) -> RunState:
        """Return the state of this worker's run: the worker ends unless it is `RUNNING`."""
        return self.state.run.state

    def status(self) -> str:
        """Return what this worker does, in a few words."""
        with self._lock.quiet:
            working = len(self.state.held(self._member.clock()))
            if working:
                return f"working on {working} {'shard' if working == 1 else 'shards'}"
            if self._listings.waiting_for:
                return f"waiting for the stream: {self._listings.waiting_for}"
            if self.state.ledger.listing.shards and self.state.working(self._member.clock()):
                return "nothing to do: every shard has an owner, waits, is halted or completed"
            return "starting"

    # --- running ----------------------------------------------------------------------------

    def renew_steps(self) -> Steps[None]:
        """Return the steps of the thread that renews the heartbeat."""
        return self._heartbeats.steps()

    def table_steps(self) -> Steps[None]:
        """Return the steps of the thread that reads and writes rows."""
        return self._rows.steps()

    def listing_steps(self) -> Steps[None]:
        """Return the steps of the thread that lists the stream."""
        return self._listings.steps()

    def start(self) -> None:
        """Start the three threads; they run until `leave`."""
        self._member.queued = deque()
        for name, steps in (
            ("heartbeats", self.renew_steps),
            ("rows", self.table_steps),
            ("listings", self.listing_steps),
        ):
            self._wakes[name] = Event()
            thread = Thread(
                target=self._run, args=(name, steps), name=f"{name} of {self.owner}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def leave(self, deadline_seconds: float = 10.0) -> bool:
        """Stop work, write what was acknowledged, release everything; return true if that was done.

        Past the deadline it returns without: the leases run out by themselves.
        """
        ends_at = self._member.clock() + deadline_seconds
        with self._lock:
            self._member.handle(e.Leaving())
        for wake in self._wakes.values():
            wake.set()
        last = Thread(target=self._leave, name=f"leaving of {self.owner}", daemon=True)
        last.start()
        last.join(max(0.0, ends_at - self._member.clock()))
        return not last.is_alive() and self._released and not self.state.mine

    def tick(self) -> None:
        """Run one round of each actor in this thread, instead of `start`."""
        rounds = (self._listings, self._heartbeats, self._rows)
        for actor in rounds if self._member.prepared else (self._rows, *rounds):
            run(actor.round(), lock=self._lock)

    def leave_steps(self) -> Steps[None]:
        """Return the steps that release everything. Nothing is taken from now on."""
        member, state = self._member, self.state
        member.handle(e.Leaving())
        for _ in range(_TRIES_TO_LEAVE):
            try:
                yield from self._heartbeats.renew()
                yield from self._rows.read_rows(tuple(state.wanted_rows()))
                yield from self._rows.act()
                self._released = True
                break
            except TableUnavailable as error:
                logger.warning("%s could not release its leases: %s", self.owner, error)
        member.handle(e.TimePassed())

    def _leave(self) -> None:
        for thread in self._threads:
            thread.join()
        run(self.leave_steps(), lock=self._lock)

    def _run(self, name: str, steps: Callable[[], Steps[None]]) -> None:
        """Run an actor's steps; one that fails unexpectedly is started again."""
        wake = self._wakes[name]

        def sleep(seconds: float) -> None:
            wake.wait(seconds)
            wake.clear()

        while not self.state.leaving:
            try:
                run(steps(), lock=self._lock, sleep=sleep)
            except Exception:
                logger.exception("%s of %s failed; starting again", name, self.owner)
                sleep(1.0)
            else:
                return

    def _wake(self, name: str) -> None:
        if name in self._wakes:
            self._wakes[name].set()

    def _report(self, event: Any) -> None:
        with self._lock.quiet:
            now = self._member.clock()
            at_work = self.state.at_work(event.shard_id, event.epoch, now)
            self._require(at_work, event.shard_id)
            self._member.handle(event)
        if self._member.queued:
            self._wake("heartbeats")  # it makes the calls: this thread may be the worker's own

    def _set_parked(self, shard_id: str, epoch: int, keys: frozenset[str]) -> None:
        with self._lock.quiet:
            self._member.handle(e.ParkedKeysRead(shard_id, epoch, keys))

    def _require(self, mine: bool, shard_id: str, cause: Exception | None = None) -> None:
        if not mine:
            recent = self.state.log.lines(shard_id) or "it was never held here"
            raise LeaseLost(
                f"{shard_id} is not {self.owner}'s under this epoch any more: drop its batch. "
                f"What happened:\n{recent}"
            ) from cause


class _Turn:
    """The lock around the state. When it is released, queued calls to the worker are made.

    They are made in order and without the lock, so that a worker may call back from any thread.
    `quiet` is the lock alone: for callers that are the worker itself.
    """

    def __init__(self, member: Member) -> None:
        self.quiet = RLock()
        self._member = member
        self._calling = RLock()

    def __enter__(self) -> None:
        self.quiet.acquire()

    def __exit__(self, *_: object) -> None:
        self.quiet.release()
        queued = self._member.queued
        if not queued:
            return
        with self._calling:
            while queued:
                try:
                    instruction = queued.popleft()
                except IndexError:
                    return
                try:
                    self._member.call_worker(instruction)
                except Exception:
                    logger.exception("a worker's call failed: %s", instruction)
