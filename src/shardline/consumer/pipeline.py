"""One leased shard: read ahead within a bound, deliver in order, acknowledge, close.

Two loops share a buffer. `read_steps` reads pages while there is demand; `deliver_steps` hands
them to the consumer and acknowledges what was processed. Both are steps: a runner process gives
each a thread of its own, a simulator runs them under its clock. A pipeline works under one epoch
and is never started again; after a lapse or a failure the lease is taken anew, with another one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from shardline.consumer.delivery import Cancelled, Done, Halted
from shardline.consumer.messages import (
    Acknowledged,
    PipelineFailed,
    PipelineFinished,
    PipelineHalted,
    ShardProcessed,
)
from shardline.consumer.read_ahead import Chunk, ReadAhead
from shardline.core.fences import Fence
from shardline.core.positions import After, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import ServiceError
from shardline.services.cursor import ShardCursor
from shardline.services.pace import ShardPace
from shardline.services.steps import Call, Pause, Steps, relayed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import pyarrow as pa

    from shardline.consumer.consumer import ShardConsumer
    from shardline.consumer.delivery import Delivery
    from shardline.consumer.messages import Counts, FromRunner, PipelineKey, StartPipeline
    from shardline.consumer.read_ahead import MemoryBudget
    from shardline.services.port import Page, StreamService

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 600.0
"""How often a shard without records says up to when nothing was there."""
_FIRST_ERROR_SECONDS: Final = 0.5
_LONGEST_ERROR_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """How much a pipeline reads ahead and delivers at once."""

    batch_records: int = 10_000
    """The most records in one call of `process`."""
    read_ahead_records: int = 20_000
    read_ahead_bytes: int = 32 * 1024 * 1024
    poll_seconds: float = 0.25
    """How long a reader at the tip waits between two reads."""


class _Finishing(Exception):
    """A delivery that failed is given up between two tries, because the shard is handed over."""


class _State(Enum):
    RUNNING = "running"
    FINISHING = "finishing"
    STOPPED = "stopped"


class Pipeline:
    """The work on one shard under one epoch. All methods are called under the runner's lock."""

    def __init__(
        self,
        start: StartPipeline,
        service: StreamService,
        consumer: ShardConsumer,
        delivery: Callable[[Callable[[], bool]], Delivery],
        *,
        limits: PipelineLimits,
        budget: MemoryBudget,
        counts: Counts,
        send: Callable[[FromRunner], None],
        clock: Callable[[], float],
        may_deliver: Callable[[], bool],
    ) -> None:
        self.key: Final[PipelineKey] = start.key
        self.wake_reader: Callable[[], None] = lambda: None
        self.wake_delivery: Callable[[], None] = lambda: None
        self._start = start
        self._service = service
        self._consumer = consumer
        self._delivery = delivery(self._cancelled)
        self._in_doubt = False
        self._limits = limits
        self._counts = counts
        self._send = send
        self._clock = clock
        self._may_deliver = may_deliver
        self._state = _State.RUNNING
        self._read_to_end = False
        self._ahead = ReadAhead(budget, limits.read_ahead_records, limits.read_ahead_bytes)
        self._position: Position = start.checkpoint
        """Everything before it is processed."""
        self._quiet_since: float | None = None

    # --- what the runner says -------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether nothing may be delivered or acknowledged any more."""
        return self._state is _State.STOPPED

    def _running(self) -> bool:
        return self._state is _State.RUNNING

    def finish(self) -> None:
        """Begin nothing new; report when the delivery at hand is done."""
        if self._running():
            self._state = _State.FINISHING
            self._wake()

    def stop(self) -> None:
        """Deliver and acknowledge nothing more. The delivery at hand is cancelled."""
        self._state = _State.STOPPED
        self._ahead.clear()
        self._wake()

    # --- reading --------------------------------------------------------------------------------

    def read_steps(self) -> Steps[None]:
        """Read pages in order while there is demand, until the shard's end or a stop."""
        cursor = ShardCursor(
            self._service,
            self.key.shard_id,
            self._start.checkpoint,
            pace=ShardPace(),
            patience_seconds=float("inf"),
            clock=self._clock,
        )
        failures = 0
        while self._running():
            demand = self._ahead.demand()
            if demand == 0:
                yield Pause(_LONGEST_PAUSE_SECONDS)
                continue
            try:
                page = yield from cursor.read_steps(demand)
            except ServiceError as error:
                failures += 1
                pause = min(_LONGEST_ERROR_SECONDS, _FIRST_ERROR_SECONDS * 2.0 ** (failures - 1))
                logger.warning("%s: %s; trying again in %.1f s", self.key.shard_id, error, pause)
                yield Pause(pause)
                continue
            failures = 0
            if not self._running():
                return
            self._take_in(page)
            if cursor.ended:
                self._read_to_end = True
                self.wake_delivery()
                return
            if not page.records.num_rows:
                yield Pause(self._limits.poll_seconds)

    def _take_in(self, page: Page) -> None:
        self._counts.reads += 1
        rows = page.records.num_rows
        as_of = _as_of(page)
        if rows:
            self._quiet_since = None
            for chunk in _chunks(page, as_of, self._limits.batch_records):
                self._ahead.put(chunk)
            self.wake_delivery()
        elif self._ahead.records == 0 and page.behind_ms == 0:
            self._note_quiet(as_of)

    def _note_quiet(self, as_of: datetime | None) -> None:
        """Report now and then that nothing unread was there: a later gap is measured from it."""
        now = self._clock()
        if self._quiet_since is None:
            self._quiet_since = now
        elif now - self._quiet_since >= _QUIET_SECONDS:
            self._quiet_since = now
            self._send(Acknowledged(self.key, self._position, as_of, 0))

    # --- delivering -----------------------------------------------------------------------------

    def deliver_steps(self) -> Steps[None]:
        """Start the consumer, deliver chunk by chunk, and end, release or halt the shard."""
        consumer, shard_id = self._consumer, self.key.shard_id
        try:
            yield partial(consumer.shard_started, shard_id, Fence(self.key.epoch, 0))
            while (yield from self._deliver_next()):
                pass
            if self._state is _State.STOPPED:
                return
            if self._all_processed:
                yield partial(consumer.shard_ended, shard_id)
                if not self.stopped:
                    self._send(ShardProcessed(self.key))
            elif self._state is _State.FINISHING:
                self._ahead.clear()
                yield partial(consumer.shard_released, shard_id)
                if not self.stopped:
                    self._send(PipelineFinished(self.key))
        except Cancelled:
            if not self.stopped:
                self._state = _State.STOPPED
                self._send(PipelineFailed(self.key, "its lease could not be renewed in time"))
        finally:
            self._ahead.clear()

    @property
    def _all_processed(self) -> bool:
        return self._read_to_end and self._ahead.records == 0

    def _deliver_next(self) -> Steps[bool]:
        """Deliver the next chunk, or wait for one; false when there is nothing more to do."""
        if not self._running() or self._all_processed:
            return False
        if not self._may_deliver():
            yield Pause(_LONGEST_PAUSE_SECONDS / 10)
            return True
        chunk = self._ahead.take()
        if chunk is None:
            yield Pause(_LONGEST_PAUSE_SECONDS)
            return True
        try:
            outcome = yield from relayed(
                self._delivery.deliver_steps(chunk.records),
                outgoing=self._require_not_finishing,
                after_pause=self._require_not_finishing,
            )
        except _Finishing:
            return False
        if self._cancelled():
            raise Cancelled(f"{self.key.shard_id}: cancelled during a delivery")
        self._ahead.taken_done()
        self.wake_reader()
        match outcome:
            case Done():
                self._count(chunk, outcome)
                self._position = chunk.after
                self._send(Acknowledged(self.key, chunk.after, chunk.as_of, chunk.lag_ms))
                return True
            case Halted(reason):
                self._state = _State.STOPPED
                self._send(PipelineHalted(self.key, reason))
                return False

    def _cancelled(self) -> bool:
        """Return true once the lease is gone or in doubt: the delivery at hand is not acknowledged.

        The answer is kept: the consumer may have seen it and returned early.
        """
        self._in_doubt = self._in_doubt or self.stopped or not self._may_deliver()
        return self._in_doubt

    def _require_not_finishing(self, step: Call | Pause) -> Call | Pause:
        """Raise between two tries if another worker waits: the next try is that worker's."""
        if isinstance(step, Pause) and self._state is _State.FINISHING:
            raise _Finishing
        return step

    def _count(self, chunk: Chunk, done: Done) -> None:
        self._counts.records += chunk.records.num_rows
        self._counts.bytes += chunk.records.nbytes
        self._counts.batches += 1
        self._counts.retries += done.retries
        self._counts.dead_letters += done.dead_lettered

    def _wake(self) -> None:
        self.wake_reader()
        self.wake_delivery()


def _chunks(page: Page, as_of: datetime | None, most: int) -> Iterator[Chunk]:
    rows = page.records.num_rows
    for begin in range(0, rows, most):
        part = page.records.slice(begin, most)
        last = begin + part.num_rows == rows
        yield Chunk(part, _after(part), as_of if last else None, page.behind_ms if last else None)


def _after(records: pa.RecordBatch) -> After:
    return After(SequenceNumber(records.column("sequenceNumber")[records.num_rows - 1].as_py()))


def _as_of(page: Page) -> datetime | None:
    if page.behind_ms is None:
        return None
    return page.service_time - timedelta(milliseconds=page.behind_ms)
