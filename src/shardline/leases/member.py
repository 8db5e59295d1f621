"""One worker's membership in an app on a stream: the state, and how events reach it.

Three actors share a member: heartbeats, rows, listings (see `coordinator`). Each runs steps of its
own, so that none waits for another; the state is changed only between their calls.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from shardline.core.leasing import events as e
from shardline.core.leasing.instructions import (
    Bump,
    Create,
    Delete,
    Finish,
    Forget,
    Instruction,
    Release,
    Renew,
    Save,
    Start,
    Stop,
    Take,
)
from shardline.leases.port import Conflict, TableUnavailable
from shardline.services.log_limits import LogLimit, and_before

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable
    from datetime import datetime

    from shardline.core.leasing.holdings import Held
    from shardline.core.leasing.instructions import ToWorker
    from shardline.core.leasing.rows import Header
    from shardline.core.leasing.state import LeaseState
    from shardline.errors import ShardlineError
    from shardline.leases.port import LeaseTable
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

_ABOUT_THE_STREAM: Final = (e.StreamDescribed, e.ShardsListed, e.ChildrenListed)


class ShardWork(Protocol):
    """What a worker does with its leases. Called from the coordinator's threads; returns soon.

    While the table hangs those threads may hang too: check `Coordinator.valid_until` before each
    delivery.
    """

    def start(self, shard_id: str, epoch: int, lease: Held) -> None:
        """Start work on a shard at its checkpoint, under an epoch that was never started before."""

    def finish(self, shard_id: str, epoch: int) -> None:
        """Begin nothing new in a shard, and call `Coordinator.finish` when nothing runs in it."""

    def stop(self, shard_id: str, epoch: int) -> None:
        """Stop at once: the lease is gone, or is about to be released."""


class Member:
    """The state of one worker, the table it writes to, and the worker that it calls."""

    def __init__(
        self,
        state: LeaseState,
        table: LeaseTable,
        space: tuple[str, str],
        work: ShardWork | None,
        clock: Callable[[], float],
        today: Callable[[], datetime],
    ) -> None:
        self.state = state
        self.table = table
        self.space = space
        """(app_name, stream_name)."""
        self.clock = clock
        self.today = today
        self.queued: deque[ToWorker] | None = None
        """Calls to the worker that wait until the lock is free; None: they are made at once."""
        self.wake: Callable[[str], None] = lambda _: None
        """Wakes an actor by its name: "heartbeats", "rows" or "listings"."""
        self.prepared = False
        """True when the table exists and can be used."""
        self.wants_start = False
        """True if the stream is listed and described to resolve a start at "latest"."""
        self.has_streams = False
        """True if the stream is one of several of a table, which are read one after the other."""
        self.wants_stream: datetime | None = None
        """When the stream was created that the header names, if another one is described."""
        self.left_streams: set[datetime] = set()
        """When those streams of the table were created that are drained, or gone."""
        self.error: ShardlineError | None = None
        """Why this worker cannot go on; None while it can."""
        self._work = work
        self._log_limit = LogLimit()

    def warn(self, what: str, error: Exception) -> None:
        """Log what the table made impossible: one line a minute for each kind of thing."""
        held_back = self._log_limit.admit(what, self.clock())
        if held_back is not None:
            more = and_before(held_back)
            logger.warning("%s %s: %s; trying again%s", self.state.owner, what, error, more)

    def handle(self, event: e.Event) -> list[Instruction]:
        """Hand an event to the state, pass calls on to the worker, and return the rest."""
        state, now, others = self.state, self.clock(), list[Instruction]()
        first = isinstance(event, e.HeaderRead) and state.header is None
        lapsed = isinstance(event, e.WriteDone) and not state.working(now)
        instructions = state.handle(event, now)
        if isinstance(event, _ABOUT_THE_STREAM) or (lapsed and state.working(now)):
            self.wake("rows")
        elif first:
            self.wake("listings")
        for instruction in instructions:
            if not isinstance(instruction, Start | Finish | Stop):
                others.append(instruction)
            elif self.queued is not None:
                self.queued.append(instruction)
            else:
                self.call_worker(instruction)
        return others

    def asks_for(self, created_at: datetime) -> bool:
        """Ask for an earlier stream of the table; return false if it is left, or cannot be had."""
        if not self.has_streams or created_at in self.left_streams:
            return False
        self.wants_stream = created_at
        self.wake("listings")
        return True

    def call_worker(self, instruction: ToWorker) -> None:
        """Make a call to the worker."""
        if self._work is None:
            return
        match instruction:
            case Start(shard_id, epoch, lease):
                self._work.start(shard_id, epoch, lease)
            case Finish(shard_id, epoch):
                self._work.finish(shard_id, epoch)
            case Stop(shard_id, epoch):
                self._work.stop(shard_id, epoch)

    def write(self, instruction: Instruction) -> Steps[None]:
        """Write, and hand what became of it to the state; a write without an answer raises."""
        sent_at = self.clock()
        header: Header | None = None
        try:
            answer = yield _write_of(instruction, self.table, self.state.header)
            header = answer if isinstance(instruction, Bump) else None
        except Conflict as conflict:
            self.handle(e.WriteRefused(instruction, conflict.current))
        except TableUnavailable:
            self.handle(e.WriteUnanswered(instruction))
            raise
        else:
            self.handle(e.WriteDone(instruction, sent_at, header))


def _write_of(
    instruction: Instruction, table: LeaseTable, header: Header | None
) -> Callable[[], Any]:
    """Return the call that carries an instruction out; it is not made yet."""
    match instruction:
        case Create(new, expected) | Take(new, expected):
            return partial(table.swap_row, new, expected)
        case Save(new, expected) | Release(new, expected):
            return partial(table.swap_row, new, expected)
        case Renew(beat, stored):
            return partial(table.swap_heartbeat, beat, stored)
        case Delete(row):
            return partial(table.delete_row, row)
        case Forget(dead):
            return partial(table.delete_heartbeat, dead)
        case Bump(settled) if header is not None:
            return partial(table.bump, header, settled=settled)
        case _:
            raise TypeError(f"not a write: {instruction}")
