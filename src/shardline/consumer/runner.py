"""Runs the pipelines of one worker: a thread for reading and one for delivering, for each shard.

A runner lives in a process of its own, in which all user code runs. It is started by the keeper
(see `consumer.worker`), which holds the leases and sends the heartbeats, so that nothing the
user's code does can stop those. It ends when the keeper is gone.
"""

from __future__ import annotations

import logging
import pickle
from functools import partial
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Final

from shardline.consumer.dead_letters import open_dead_letters
from shardline.consumer.delivery import Delivery
from shardline.consumer.messages import (
    Counts,
    FinishPipeline,
    KeyParked,
    LeasesValid,
    PipelineFailed,
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
from shardline.services.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.consumer.consumer import ShardConsumer
    from shardline.consumer.dead_letters import LetterBox
    from shardline.consumer.job import Job
    from shardline.consumer.messages import FromRunner, PipelineKey, ToRunner
    from shardline.services.port import StreamService
    from shardline.services.steps import Call, Pause, Steps

logger = logging.getLogger(__name__)

PULSE_SECONDS: Final = 1.0


class _Stopped(Exception):
    """Thrown into steps whose pipeline was stopped while they paused."""


class _Loop:
    """One thread that runs steps; it can be woken, and knows how long its call takes."""

    def __init__(
        self, name: str, steps: Steps[None], lock: RLock, stopped: Callable[[], bool]
    ) -> None:
        self.call_began: float | None = None
        self._steps = steps
        self._lock = lock
        self._stopped = stopped
        self._wake = Event()
        self.thread: Final = Thread(target=self._run, name=name, daemon=True)
        self.failure: BaseException | None = None
        self.ended = False

    def wake(self) -> None:
        """End the pause at hand, or the next one."""
        self._wake.set()

    def call(self, call: Call) -> object:
        """Make a call, and keep when it began."""
        self.call_began = boot_seconds()
        try:
            return call()
        finally:
            self.call_began = None

    def pause(self, seconds: float) -> None:
        """Wait, unless woken; raise if the pipeline was stopped."""
        self._wake.wait(seconds)
        self._wake.clear()
        if self._stopped():
            raise _Stopped

    def _run(self) -> None:
        from shardline.services.steps import Pause, relayed

        def watched(step: Call | Pause) -> Call | Pause:
            return step if isinstance(step, Pause) else partial(self.call, step)

        try:
            run(relayed(self._steps, outgoing=watched), lock=self._lock, sleep=self.pause)
        except _Stopped:
            pass
        except BaseException as error:
            self.failure = error
        self.ended = True


class _Work:
    """A pipeline with its threads."""

    def __init__(self, pipeline: Pipeline, consumer: ShardConsumer, lock: RLock) -> None:
        name = pipeline.key.shard_id
        self.pipeline: Final = pipeline
        self.consumer: Final = consumer
        self.reader: Final = _Loop(
            f"reader of {name}", pipeline.read_steps(), lock, lambda: pipeline.stopped
        )
        self.delivery: Final = _Loop(
            f"consumer of {name}", pipeline.deliver_steps(), lock, lambda: pipeline.stopped
        )
        lanes = pipeline.lanes if pipeline.lanes > 1 else 0
        self.lanes: Final = [
            _Loop(f"lane {i} of {name}", pipeline.lane_steps(i), lock, lambda: pipeline.stopped)
            for i in range(lanes)
        ]
        pipeline.wake_reader, pipeline.wake_delivery = self.reader.wake, self.delivery.wake
        pipeline.wake_lane = self._wake_lane

    @property
    def loops(self) -> list[_Loop]:
        """All threads of the pipeline."""
        return [self.reader, self.delivery, *self.lanes]

    def start(self) -> None:
        """Start the threads."""
        for loop in self.loops:
            loop.thread.start()

    def failure(self) -> BaseException | None:
        """Return what ended one of the threads, if anything did."""
        return next((loop.failure for loop in self.loops if loop.failure), None)

    def oldest_call(self) -> tuple[float, Thread] | None:
        """Return when the longest call of the consumer began, and the thread that is in it."""
        calls = [
            (loop.call_began, loop.thread)
            for loop in (self.delivery, *self.lanes)
            if loop.call_began is not None
        ]
        return min(calls, key=lambda call: call[0], default=None)

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
        connect_to: Callable[[str], StreamService] | None = None,
    ) -> None:
        self.finished: Final = Event()
        self.counts: Final = Counts()
        self._job = job
        self._send = send
        self._lock = RLock()
        self._budget = MemoryBudget(job.memory_bytes)
        self._valid_until = float("-inf")
        self._works: dict[tuple[str, str], _Work] = {}
        self._abandoned: dict[tuple[str, str], Thread] = {}
        self._services: dict[str, StreamService] = {}
        self._connect = connect_to or self._connect_to
        self._letters: LetterBox | None = None

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
                case StopPipeline(key):
                    self._stop(key)
                case Quit():
                    self.finished.set()

    def watch(self) -> None:
        """Abandon what stalled, report what died, and show that this process lives."""
        now = boot_seconds()
        with self._lock:
            for place, work in list(self._works.items()):
                call = work.oldest_call()
                if call is not None and now - call[0] > self._job.stall_seconds:
                    self._abandon(place, work, call[1], now - call[0])
                elif work.failure() is not None:
                    self._report_failure(place, work)
                elif work.delivery.ended:
                    del self._works[place]
            self._abandoned = {p: t for p, t in self._abandoned.items() if t.is_alive()}
            counts = self.counts
        self._send(Pulse(counts))

    # --- pipelines ------------------------------------------------------------------------------

    def _start(self, start: StartPipeline) -> None:
        place = (start.key.stream_name, start.key.shard_id)
        if place in self._abandoned and self._abandoned[place].is_alive():
            self._send(PipelineStalled(start.key, self._job.stall_seconds))
            return
        if place in self._works:
            self._stop(self._works[place].pipeline.key)
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
        service = self._services.get(key.stream_name)
        if service is None:
            service = self._services[key.stream_name] = self._connect(key.stream_name)
        pipeline = Pipeline(
            start,
            service,
            consumer,
            partial(self._delivery, start, consumer),
            limits=job.limits,
            go_on_after_gaps=job.go_on_after_gaps,
            budget=self._budget,
            counts=self.counts,
            send=self._send,
            clock=boot_seconds,
            may_deliver=lambda: boot_seconds() < self._valid_until,
        )
        return _Work(pipeline, consumer, self._lock)

    def _delivery(
        self, start: StartPipeline, consumer: ShardConsumer, cancelled: Callable[[], bool]
    ) -> Delivery:
        policy = consumer.failure
        if isinstance(policy, DeadLetter) and self._letters is None:
            self._letters = open_dead_letters(policy.to, self._job.streams[0].access)
        key = start.key

        def park(record_key: str, letter_id: str) -> Call:
            return partial(self._send, KeyParked(key, record_key, letter_id))

        return Delivery(
            consumer,
            key.shard_id,
            key.epoch,
            cancelled=cancelled,
            letters=self._letters,
            parked=start.parked,
            park=park,
        )

    def _connect_to(self, stream_name: str) -> StreamService:
        source = next(s for s in self._job.streams if s.name == stream_name)
        return connect(source.address, source.access, wire=source.wire)

    def _work_of(self, key: PipelineKey) -> _Work | None:
        work = self._works.get((key.stream_name, key.shard_id))
        return work if work is not None and work.pipeline.key == key else None

    def _stop(self, key: PipelineKey) -> None:
        work = self._work_of(key)
        if work is None:
            return
        del self._works[key.stream_name, key.shard_id]
        work.pipeline.stop()
        tell = partial(_tell_lease_lost, work.consumer, key.shard_id)
        Thread(target=tell, name=f"lease_lost of {key.shard_id}", daemon=True).start()
        call = work.oldest_call()
        if call is not None:
            self._abandoned[key.stream_name, key.shard_id] = call[1]

    def _abandon(self, place: tuple[str, str], work: _Work, thread: Thread, seconds: float) -> None:
        del self._works[place]
        work.pipeline.stop()
        self._abandoned[place] = thread
        logger.error(
            "%s: the consumer did not return for %.0f s; it is abandoned, and its shard given up",
            place[1],
            seconds,
        )
        self._send(PipelineStalled(work.pipeline.key, seconds))

    def _report_failure(self, place: tuple[str, str], work: _Work) -> None:
        error = work.failure()
        del self._works[place]
        work.pipeline.stop()
        logger.error("%s: its pipeline failed: %r", place[1], error, exc_info=error)
        self._send(PipelineFailed(work.pipeline.key, f"{type(error).__name__}: {error}"))


def _tell_lease_lost(consumer: ShardConsumer, shard_id: str) -> None:
    try:
        consumer.lease_lost(shard_id)
    except Exception:
        logger.exception("%s: lease_lost raised", shard_id)
