"""Runs the pipelines of one worker: a thread for reading and one for delivering, for each shard.

A runner lives in a process of its own, in which all user code runs. It is started by the keeper
(see `consumer.worker`), which holds the leases and sends the heartbeats, so that nothing the
user's code does can stop those. It ends when the keeper is gone.
"""

from __future__ import annotations

import logging
import pickle
from functools import partial
from threading import Event, RLock
from typing import TYPE_CHECKING, Final

from shardline.consumer.dead_letters import open_dead_letters
from shardline.consumer.delivery import Delivery, Unanswered
from shardline.consumer.letters.letter import Origin
from shardline.consumer.loops import ThreadLoop
from shardline.consumer.messages import (
    Counts,
    FinishPipeline,
    KeyIsParked,
    KeyParked,
    LeasesValid,
    PipelineBlocked,
    PipelineFailed,
    PipelineFinished,
    PipelineStalled,
    Pulse,
    Quit,
    StartPipeline,
    StopPipeline,
)
from shardline.consumer.pipeline import Pipeline
from shardline.consumer.policies import DeadLetter
from shardline.consumer.read_ahead import MemoryBudget
from shardline.services.clock import boot_seconds
from shardline.services.connection import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.consumer.consumer import ShardConsumer
    from shardline.consumer.dead_letters import LetterBox
    from shardline.consumer.job import Job
    from shardline.consumer.loops import Loop
    from shardline.consumer.messages import FromRunner, PipelineKey, ToRunner
    from shardline.consumer.policies import FailurePolicy
    from shardline.services.port import StreamService
    from shardline.services.steps import Call, Steps

logger = logging.getLogger(__name__)

PULSE_SECONDS: Final = 1.0
_MOMENT_SECONDS: Final = 2.0
"""A shard that waits no longer than this is not behind."""


class _Work:
    """A pipeline with its loops: one reads, one delivers, or one for each lane."""

    def __init__(
        self,
        pipeline: Pipeline,
        consumer: ShardConsumer,
        make_loop: Callable[[str, Steps[None], Callable[[], bool]], Loop],
    ) -> None:
        name = pipeline.key.shard_id
        self.pipeline: Final = pipeline
        self.consumer: Final = consumer

        def loop(role: str, steps: Steps[None]) -> Loop:
            return make_loop(f"{role} of {name}", steps, lambda: pipeline.stopped)

        self.reader: Final = loop("reader", pipeline.read_steps())
        self.delivery: Final = loop("consumer", pipeline.deliver_steps())
        lanes = pipeline.lanes if pipeline.lanes > 1 else 0
        self.lanes: Final = [loop(f"lane {i}", pipeline.lane_steps(i)) for i in range(lanes)]
        pipeline.wake_reader, pipeline.wake_delivery = self.reader.wake, self.delivery.wake
        pipeline.wake_lane = self._wake_lane

    @property
    def loops(self) -> list[Loop]:
        """All loops of the pipeline."""
        return [self.reader, self.delivery, *self.lanes]

    def wake(self) -> None:
        """End the pauses of the loops that deliver."""
        for loop in (self.delivery, *self.lanes):
            loop.wake()

    def start(self) -> None:
        """Start the loops."""
        for loop in self.loops:
            loop.start()

    def failure(self) -> BaseException | None:
        """Return what ended one of the loops, if anything did."""
        return next((loop.failure for loop in self.loops if loop.failure), None)

    def oldest_call(self) -> float | None:
        """Return when the longest call of the consumer began; None if none is running."""
        calls = (loop.call_began for loop in (self.delivery, *self.lanes))
        return min((began for began in calls if began is not None), default=None)

    def _wake_lane(self, lane: int) -> None:
        if self.lanes:
            self.lanes[lane].wake()


class Runner:
    """The pipelines of one worker. `handle` and `watch` may be called from different threads."""

    def __init__(
        self,
        job: Job,
        send: Callable[[FromRunner], None],
        *,
        connect_to: Callable[[str, datetime | None], StreamService] | None = None,
        make_loop: Callable[[str, Steps[None], Callable[[], bool]], Loop] | None = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """Prepare a runner. A simulator passes its own services, loops and clock."""
        self.finished: Final = Event()
        self.counts: Final = {source.name: Counts() for source in job.streams}
        self._job = job
        self._send = send
        self._lock = RLock()
        self._budget = MemoryBudget(job.memory_bytes)
        self._valid_until = float("-inf")
        self._works: dict[tuple[str, str], _Work] = {}
        self._abandoned: dict[tuple[str, str], _Work] = {}
        """Pipelines that ended while a call of their consumer runs on."""
        self._waiting: dict[tuple[str, str], StartPipeline] = {}
        """Starts that wait for the end of such a call: never two at once in one shard."""
        self._services: dict[tuple[str, datetime | None], StreamService] = {}
        """By the stream's name and its time of creation: a table may have several streams."""
        self._connect = connect_to or self._connect_to
        self._make_loop = make_loop or self._thread
        self._clock = clock
        self._letters: dict[str, LetterBox] = {}
        self._hash_keys: dict[str, str | None] = {}
        self._parked: set[tuple[PipelineKey, str]] = set()
        """The keys that the keeper has parked."""

    def handle(self, message: ToRunner) -> None:
        """Do what the keeper says."""
        with self._lock:
            match message:
                case LeasesValid(until):
                    self._valid_until = until
                case StartPipeline():
                    self._start(message)
                case FinishPipeline(key):
                    work = self._work_of(key)
                    if work is not None:
                        work.pipeline.finish()
                    elif self._stop_waiting(key):
                        self._send(PipelineFinished(key))
                case StopPipeline(key):
                    self._stop(key)
                case KeyIsParked(key, record_key):
                    self._parked.add((key, record_key))
                    work = self._work_of(key)
                    if work is not None:
                        work.wake()
                case Quit():
                    self.finished.set()

    def watch(self) -> None:
        """Abandon what stalled, report what died, and show that this process lives."""
        now = self._clock()
        with self._lock:
            for place, work in list(self._works.items()):
                began = work.oldest_call()
                if began is not None and now - began > self._job.stall_seconds:
                    self._abandon(place, work, now - began)
                elif work.failure() is not None:
                    self._report_failure(place, work)
                elif work.delivery.ended:
                    self._drop(place, work)
            for place, work in list(self._abandoned.items()):
                self._look_after(place, work.oldest_call(), now)
            waits = {w.pipeline.key: w.pipeline.waiting_seconds() for w in self._works.values()}
            waiting_ms = {key: int(1000 * s) for key, s in waits.items() if s > _MOMENT_SECONDS}
            counts = self.counts
        self._send(Pulse(counts, waiting_ms))

    # --- pipelines ------------------------------------------------------------------------------

    def _start(self, start: StartPipeline) -> None:
        place = (start.key.stream_name, start.key.shard_id)
        if place in self._works:
            if self._works[place].pipeline.key == start.key:
                return  # sent twice, around the start of this process
            self._stop(self._works[place].pipeline.key)
        if place in self._abandoned and self._abandoned[place].oldest_call() is not None:
            self._waiting[place] = start  # for the end of that call: `watch` looks for it
            return
        try:
            work = self._make(start)
        except Exception as error:
            logger.exception("%s could not be started", start.key.shard_id)
            self._send(PipelineFailed(start.key, f"{type(error).__name__}: {error}"))
            return
        self._works[place] = work
        work.start()

    def _make(self, start: StartPipeline) -> _Work:
        job, key = self._job, start.key
        consumer: ShardConsumer = pickle.loads(job.consumer)  # noqa: S301 - our own launcher's
        stream = (key.stream_name, start.stream_created_at)
        service = self._services.get(stream)
        if service is None:
            service = self._services[stream] = self._connect(*stream)
        pipeline = Pipeline(
            start,
            service,
            consumer,
            partial(self._delivery, start, consumer),
            limits=job.limits,
            go_on_after_gaps=job.go_on_after_gaps,
            budget=self._budget,
            counts=self.counts[key.stream_name],
            send=self._send,
            clock=self._clock,
            may_deliver=lambda: self._clock() < self._valid_until,
        )
        return _Work(pipeline, consumer, self._make_loop)

    def _thread(self, name: str, steps: Steps[None], stopped: Callable[[], bool]) -> Loop:
        return ThreadLoop(name, steps, self._lock, stopped)

    def _delivery(
        self, start: StartPipeline, consumer: ShardConsumer, cancelled: Callable[[], bool]
    ) -> Delivery:
        key, job = start.key, self._job

        def park(record_key: str, letter_id: str) -> Call:
            return partial(self._park, key, record_key, letter_id)

        return Delivery(
            consumer,
            key.shard_id,
            key.epoch,
            cancelled=cancelled,
            letters=self._letters_of(key.stream_name, consumer.failure),
            parked=start.parked,
            park=park,
            find_hash_key=partial(self._hash_key_of, key.stream_name, start.stream_created_at),
            change_of=pickle.loads(job.change_of) if job.change_of else None,  # noqa: S301
        )

    def _hash_key_of(self, stream_name: str, created_at: datetime | None) -> str | None:
        """Ask for the hash key of a table, once for all its shards."""
        if stream_name not in self._hash_keys:
            service = self._services[stream_name, created_at]
            self._hash_keys[stream_name] = service.describe().hash_key
        return self._hash_keys[stream_name]

    def _letters_of(self, stream_name: str, policy: FailurePolicy) -> LetterBox | None:
        if isinstance(policy, DeadLetter) and stream_name not in self._letters:
            source = next(s for s in self._job.streams if s.name == stream_name)
            origin = Origin(self._job.app, stream_name)
            self._letters[stream_name] = open_dead_letters(policy.to, source.access, origin=origin)
        return self._letters.get(stream_name)

    def _park(self, key: PipelineKey, record_key: str, letter_id: str) -> None:
        """Ask the keeper to park a key; raise `Unanswered` until it has."""
        if (key, record_key) not in self._parked:
            self._send(KeyParked(key, record_key, letter_id))
            raise Unanswered
        self._parked.discard((key, record_key))

    def _connect_to(self, stream_name: str, created_at: datetime | None) -> StreamService:
        source = next(s for s in self._job.streams if s.name == stream_name)
        return connect(
            source.address,
            source.access,
            wire=source.wire,
            fan_out=source.fan_out,
            snapshot=source.snapshot,
            created_from=created_at,
        )

    def _work_of(self, key: PipelineKey) -> _Work | None:
        work = self._works.get((key.stream_name, key.shard_id))
        return work if work is not None and work.pipeline.key == key else None

    def _look_after(self, place: tuple[str, str], call_began: float | None, now: float) -> None:
        """Start what waited for the end of an abandoned call; report it if the call hangs."""
        if call_began is None:
            del self._abandoned[place]
            if place in self._waiting:
                self._start(self._waiting.pop(place))
        elif place in self._waiting and now - call_began > self._job.stall_seconds:
            self._send(PipelineBlocked(self._waiting.pop(place).key))

    def _stop_waiting(self, key: PipelineKey) -> bool:
        """Forget a start that waits; return true if it was there."""
        place = (key.stream_name, key.shard_id)
        found = place in self._waiting and self._waiting[place].key == key
        if found:
            del self._waiting[place]
        return found

    def _drop(self, place: tuple[str, str], work: _Work) -> None:
        """Remove a pipeline that ended; one of its lanes may still be in a call."""
        del self._works[place]
        if work.oldest_call() is not None:
            self._abandoned[place] = work

    def _stop(self, key: PipelineKey) -> None:
        self._stop_waiting(key)
        work = self._work_of(key)
        if work is None:
            return
        self._drop((key.stream_name, key.shard_id), work)
        if work.delivery.ended:
            return  # it was released or ended before
        work.pipeline.stop()
        told = _call_lease_lost(work.consumer, key.shard_id)
        self._make_loop(f"lease_lost of {key.shard_id}", told, lambda: False).start()

    def _abandon(self, place: tuple[str, str], work: _Work, seconds: float) -> None:
        del self._works[place]
        work.pipeline.stop()
        self._abandoned[place] = work
        logger.error(
            "%s: the consumer did not return for %.0f s; it is abandoned, and its shard given up",
            place[1],
            seconds,
        )
        self._send(PipelineStalled(work.pipeline.key, seconds))

    def _report_failure(self, place: tuple[str, str], work: _Work) -> None:
        error = work.failure()
        self._drop(place, work)
        work.pipeline.stop()
        logger.error("%s: its pipeline failed: %r", place[1], error, exc_info=error)
        self._send(PipelineFailed(work.pipeline.key, f"{type(error).__name__}: {error}"))


def _call_lease_lost(consumer: ShardConsumer, shard_id: str) -> Steps[None]:
    try:
        yield partial(consumer.lease_lost, shard_id)
    except Exception:
        logger.exception("%s: lease_lost raised", shard_id)
