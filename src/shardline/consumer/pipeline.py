"""One leased shard: read ahead within a bound, deliver in order, acknowledge, close.

Two loops share a buffer. `read_steps` reads pages while there is demand; `deliver_steps` hands
them to the consumer and acknowledges what was processed. Both are steps: a runner process gives
each a thread of its own, a simulator runs them under its clock. A pipeline works under one epoch
and is never started again; after a lapse or a failure the lease is taken anew, with another one.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeGuard

from shardline.consumer.delivery import Cancelled, Done, Halted
from shardline.consumer.gap_watch import GapWatch
from shardline.consumer.lanes import Watermark
from shardline.consumer.messages import (
    Acknowledged,
    ConsumerCalled,
    ConsumerReturned,
    GapFound,
    PipelineFailed,
    PipelineFinished,
    PipelineHalted,
    ShardProcessed,
)
from shardline.consumer.read_ahead import Chunk, ReadAhead
from shardline.core.fences import Fence
from shardline.core.gaps import Gap, Verdict
from shardline.core.positions import TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import PositionTrimmed, ServiceError
from shardline.services.aggregation import split_aggregated
from shardline.services.pace import ShardPace
from shardline.services.shard_readers import shard_reader
from shardline.services.steps import Call, Pause, Steps, relayed
from shardline.services.wire.columns import SUB_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import pyarrow as pa

    from shardline.consumer.consumer import ShardConsumer
    from shardline.consumer.delivery import Delivery
    from shardline.consumer.job import PipelineLimits
    from shardline.consumer.messages import Counts, FromRunner, PipelineKey, StartPipeline
    from shardline.consumer.read_ahead import MemoryBudget
    from shardline.services.port import Page, ShardReader, StreamService

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS: Final = 1.0
_EVENT_SECONDS: Final = 5.0
"""How long a reader that is pushed to waits for records."""
_QUIET_SECONDS: Final = 600.0
"""How often a shard without records says up to when nothing was there."""
_SILENT_SECONDS: Final = 30.0
"""A service that has not answered for so long holds up the shard."""
_FIRST_ERROR_SECONDS: Final = 0.5
_FINISH_SECONDS: Final = 1.0
"""How long a shard that is handed over goes on with what was read ahead."""
_OPEN_CHUNKS: Final = 4
"""How many chunks the lanes of a shard may be in at once."""
_LONGEST_ERROR_SECONDS: Final = 30.0


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
        go_on_after_gaps: bool,
        budget: MemoryBudget,
        counts: Counts,
        send: Callable[[FromRunner], None],
        clock: Callable[[], float],
        may_deliver: Callable[[], bool],
    ) -> None:
        self.key: Final[PipelineKey] = start.key
        self.wake_reader: Callable[[], None] = lambda: None
        self.wake_delivery: Callable[[], None] = lambda: None
        self.wake_lane: Callable[[int], None] = lambda lane: None  # noqa: ARG005
        self.lanes: Final = max(1, consumer.lanes)
        self._start = start
        self._service = service
        self._consumer = consumer
        self._delivery = delivery(self._cancelled)
        self._in_doubt = False
        self._finish_by = float("inf")
        self._limits = limits
        self._counts = counts
        self._send = send
        self._clock = clock
        self._may_deliver = may_deliver
        self._state = _State.RUNNING
        self._read_to_end = False
        self._pace = ShardPace()
        self._reader = self._reader_at(start.checkpoint)
        self._ahead = ReadAhead(budget, limits.read_ahead_records, limits.read_ahead_bytes)
        self._position: Position = start.checkpoint
        """Everything before it is processed."""
        self._quiet_since: float | None = None
        self._read_at = self._moved_at = clock()
        """When a page last came; and when one was acknowledged, or came while nothing waited."""
        self._go_on_after_gaps = go_on_after_gaps
        self._gaps = GapWatch(
            service,
            start.key.shard_id,
            start.checkpoint,
            start.as_of,
            clock,
            start.stream_created_at,
        )
        self._unjudged: Page | None = None
        """A page that was read, while it is not known yet whether a gap is before it."""
        self._watermark = Watermark[Chunk]()
        self._queues: list[deque[_Part]] = [deque() for _ in range(self.lanes)]
        self._busy_lanes = 0
        self._acknowledged = self._called = False
        """Whether anything was acknowledged, and before that: whether the consumer is called."""

    # --- what the runner says -------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether nothing may be delivered or acknowledged any more."""
        return self._state is _State.STOPPED

    def _running(self) -> bool:
        return self._state is _State.RUNNING

    def waiting_seconds(self) -> float:
        """Return how long records wait for the consumer, or this pipeline for the service."""
        now = self._clock()
        if self._ahead.records or len(self._watermark):
            return now - self._moved_at
        silent_seconds = now - self._read_at
        return silent_seconds if silent_seconds > _SILENT_SECONDS else 0.0

    def finish(self) -> None:
        """Read nothing more; report when what was read ahead is delivered, or after a moment."""
        if self._running():
            self._state = _State.FINISHING
            self._finish_by = self._clock() + _FINISH_SECONDS
            self._wake()

    def stop(self) -> None:
        """Deliver and acknowledge nothing more. The running delivery is cancelled."""
        self._state = _State.STOPPED
        self._ahead.clear()
        self._wake()

    # --- reading --------------------------------------------------------------------------------

    def read_steps(self) -> Steps[None]:
        """Read pages in order while there is demand, until the shard's end or a stop."""
        try:
            yield from self._read_on()
        finally:
            self._reader.close()

    def _read_on(self) -> Steps[None]:
        failures = 0
        while self._running():
            demand = self._ahead.demand()
            if demand == 0:
                yield Pause(_LONGEST_PAUSE_SECONDS)
                continue
            try:
                found = yield from self._read(demand)
            except ServiceError as error:
                failures += 1
                pause = min(_LONGEST_ERROR_SECONDS, _FIRST_ERROR_SECONDS * 2.0 ** (failures - 1))
                logger.warning("%s: %s; trying again in %.1f s", self.key.shard_id, error, pause)
                yield Pause(pause)
                continue
            failures = 0
            if not self._running():
                return
            if isinstance(found, Gap):
                if not self._accept(found):
                    return
                self._go_to(TRIM_HORIZON)
                continue
            if isinstance(found, Verdict):
                yield Pause(_LONGEST_PAUSE_SECONDS)
                again = TRIM_HORIZON if found is Verdict.HORIZON else self._reader.position
                self._go_to(again)
                continue
            page = found
            self._take_in(page, ended=self._reader.ended)
            if self._reader.ended:
                self._read_to_end = True
                self.wake_delivery()
                return
            if not page.records.num_rows and not page.behind_ms:
                yield Pause(self._limits.poll_seconds)  # an empty page before the tip: read on

    def _read(self, demand: int) -> Steps[Page | Gap | Verdict]:
        """Read a page; return a gap before it instead, or what to do about a refused place."""
        if self._unjudged is None:
            try:
                self._unjudged = yield from self._reader.read_steps(demand)
            except PositionTrimmed:
                return (yield from self._gaps.at_refusal())
        page = self._unjudged  # kept if the next call fails: the reader is past it
        gap = yield from self._gaps.before_page(page)
        self._unjudged = None
        if gap is not None:
            return gap
        if page.records.num_rows and "partitionKey" in page.records.schema.names:
            after = self._start.checkpoint
            whole = partial(split_aggregated, page.records, after if _is_inside(after) else None)
            page = replace(page, records=(yield whole))
        return page

    def _go_to(self, position: Position) -> None:
        self._reader.close()
        self._reader = self._reader_at(position)

    def _reader_at(self, position: Position) -> ShardReader:
        return shard_reader(
            self._service,
            self.key.shard_id,
            position,
            pace=self._pace,
            patience_seconds=float("inf"),
            wait_seconds=_EVENT_SECONDS,
            clock=self._clock,
        )

    def _accept(self, gap: Gap) -> bool:
        """Record a gap and go on at the horizon, or halt the shard, as the policy says."""
        if not self._go_on_after_gaps:
            self.stop()
            self._send(PipelineHalted(self.key, str(gap)))
            return False
        logger.warning("%s", gap)
        self._send(GapFound(self.key, str(gap)))
        self._gaps.skip_to_horizon()
        return True

    def _take_in(self, page: Page, *, ended: bool) -> None:
        self._counts.reads += 1
        self._read_at = self._clock()
        if not self._ahead.records and not len(self._watermark):
            self._moved_at = self._read_at
        self._gaps.after_page(page, closed=ended)
        as_of = self._gaps.as_of
        if page.records.num_rows:
            self._quiet_since = None
            for chunk in _chunks(page, as_of, self._limits.batch_records):
                self._ahead.put(chunk)
            self.wake_delivery()
        elif self._ahead.records == 0 and len(self._watermark) == 0 and not page.behind_ms:
            self._note_quiet(as_of)

    def _note_quiet(self, as_of: datetime | None) -> None:
        """Report now and then that nothing unread was there: a later gap is measured from it."""
        now = self._clock()
        if self._quiet_since is None:
            due = self._start.suspected and not self._acknowledged
        else:
            due = now - self._quiet_since >= _QUIET_SECONDS
        if due or self._quiet_since is None:
            self._quiet_since = now
        if due:
            self._acknowledge(as_of, 0)

    def _acknowledge(self, as_of: datetime | None, lag_ms: int | None) -> None:
        self._acknowledged = True
        self._send(Acknowledged(self.key, self._position, as_of, lag_ms))

    def _report_call(self, *, called: bool) -> None:
        """Report whether the consumer is called: if this process dies meanwhile, that counts.

        One that acknowledged something has shown that it works, and reports no more.
        """
        if called != self._called and not self._acknowledged:
            self._called = called
            self._send((ConsumerCalled if called else ConsumerReturned)(self.key))

    # --- delivering -----------------------------------------------------------------------------

    def deliver_steps(self) -> Steps[None]:
        """Start the consumer, deliver chunk by chunk, and end, release or halt the shard."""
        consumer, shard_id = self._consumer, self.key.shard_id
        try:
            self._report_call(called=True)
            yield partial(consumer.shard_started, shard_id, Fence(self.key.epoch, 0))
            self._report_call(called=False)
            while (yield from self._deliver_next()):
                pass
            while self._lanes_at_work() and not self.stopped:
                yield Pause(_LONGEST_PAUSE_SECONDS)
            if self.stopped:
                return
            if self._all_processed:
                yield partial(consumer.shard_ended, shard_id)
                if not self.stopped:
                    self._acknowledge(self._gaps.as_of, None)  # its children hold nothing older
                    self._send(ShardProcessed(self.key))
            else:
                yield partial(consumer.shard_released, shard_id)
                if not self.stopped:
                    self._send(PipelineFinished(self.key))
        except Cancelled:
            self._fail()
        finally:
            self._ahead.clear()

    def lane_steps(self, lane: int) -> Steps[None]:
        """Deliver what is given to one lane, until the shard ends, is finished or stopped."""
        queue = self._queues[lane]
        try:
            while not self.stopped and not self._all_processed:
                if not queue and self._state is _State.FINISHING and self._nothing_more():
                    return
                if not queue:
                    yield Pause(_LONGEST_PAUSE_SECONDS)
                    continue
                self._busy_lanes += 1
                try:
                    yield from self._deliver_part(queue.popleft())
                finally:
                    self._busy_lanes -= 1
                    self.wake_delivery()
        except Cancelled:
            self._fail()

    def _lanes_at_work(self) -> bool:
        return self._busy_lanes > 0 or any(self._queues)

    @property
    def _all_processed(self) -> bool:
        return self._read_to_end and self._ahead.records == 0 and len(self._watermark) == 0

    def _nothing_more(self) -> bool:
        """Return true when no further delivery is to begin."""
        if self._state is _State.FINISHING:
            return self._ahead.records == 0 or self._clock() >= self._finish_by
        return self.stopped or self._all_processed

    def _deliver_next(self) -> Steps[bool]:
        """Deliver the next chunk, or wait for one; false when there is nothing more to do."""
        if self._nothing_more():
            return False
        if not self._may_deliver():
            yield Pause(_LONGEST_PAUSE_SECONDS / 10)
            return True
        chunk = self._ahead.take() if len(self._watermark) < _OPEN_CHUNKS else None
        if chunk is None:
            yield Pause(_LONGEST_PAUSE_SECONDS)
            return True
        if self.lanes == 1:
            ticket = self._watermark.opened(chunk, 1)
            yield from self._deliver_part(_Part(ticket, chunk.records, chunk.records.nbytes))
            return True
        parts = yield partial(self._delivery.split, chunk.records, self.lanes)
        filled = sum(part.num_rows > 0 for part in parts)
        ticket = self._watermark.opened(chunk, filled)
        share, rest = divmod(chunk.records.nbytes, filled)
        for lane, part in enumerate(parts):
            if part.num_rows:
                self._queues[lane].append(_Part(ticket, part, share + rest))
                rest = 0
                self.wake_lane(lane)
        return True

    def _deliver_part(self, part: _Part) -> Steps[None]:
        """Deliver a chunk, or one lane's part of it, and acknowledge as far as all are done."""
        try:
            outcome = yield from relayed(
                self._delivery.deliver_steps(part.records),
                outgoing=self._outgoing,
                after_pause=self._require_not_finishing,
            )
        except _Finishing:
            # What was read after it belongs to the next owner: it must not overtake this part.
            self._finish_by = float("-inf")
            for queue in self._queues:
                queue.clear()
            return
        if self._cancelled():
            raise Cancelled(f"{self.key.shard_id}: cancelled during a delivery")
        if isinstance(outcome, Halted):
            self.stop()
            self._send(PipelineHalted(self.key, outcome.reason))
            return
        self._ahead.release(part.size_bytes)
        self._count(part, outcome)
        reached = self._watermark.acknowledged(part.ticket)
        if reached is not None:
            self._moved_at = self._clock()
            self._position = reached.after
            self._acknowledge(reached.as_of, reached.lag_ms)
        self.wake_reader()

    def _cancelled(self) -> bool:
        """Return true once the lease is gone or in doubt: the running delivery is not acknowledged.

        The answer is kept: the consumer may have seen it and returned early.
        """
        self._in_doubt = self._in_doubt or self.stopped or not self._may_deliver()
        return self._in_doubt

    def _fail(self) -> None:
        if not self.stopped:
            self.stop()
            self._send(PipelineFailed(self.key, "its lease could not be renewed in time"))

    def _outgoing(self, step: Call | Pause) -> Call | Pause:
        if self.lanes == 1 or not isinstance(step, Pause):  # other lanes may be in a call
            self._report_call(called=not isinstance(step, Pause))
        return self._require_not_finishing(step)

    def _require_not_finishing(self, step: Call | Pause) -> Call | Pause:
        """Raise between two tries if another worker waits: the next try is that worker's."""
        if isinstance(step, Pause) and self._state is _State.FINISHING:
            raise _Finishing
        return step

    def _count(self, part: _Part, done: Done) -> None:
        self._counts.records += part.records.num_rows
        self._counts.bytes += part.size_bytes
        self._counts.batches += 1
        self._counts.retries += done.retries
        self._counts.dead_letters += done.dead_lettered

    def _wake(self) -> None:
        self.wake_reader()
        self.wake_delivery()
        for lane in range(self.lanes):
            self.wake_lane(lane)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one lane delivers of a chunk."""

    ticket: int
    records: pa.RecordBatch
    size_bytes: int


def _chunks(page: Page, as_of: datetime | None, most: int) -> Iterator[Chunk]:
    rows = page.records.num_rows
    for begin in range(0, rows, most):
        part = page.records.slice(begin, most)
        end = begin + part.num_rows
        after = _after(page.records, end)
        if end == rows:
            yield Chunk(part, after, as_of, page.behind_ms)
        else:
            yield Chunk(part, after, None, None)


def _after(records: pa.RecordBatch, end: int) -> After:
    """Return the position after the row before `end`: perhaps inside an aggregated record."""
    numbers = records.column("sequenceNumber")
    number = numbers[end - 1].as_py()
    if end < records.num_rows and numbers[end].as_py() == number:
        inside = records.column(SUB_SEQUENCE.name)[end - 1].as_py()
        return After(SequenceNumber(number), inside)
    return After(SequenceNumber(number))


def _is_inside(position: Position) -> TypeGuard[After]:
    return isinstance(position, After) and position.sub_sequence is not None
