"""A worker: holds leases through a coordinator for each stream, and runs a pipeline per shard.

This is the keeper's half. It runs no user code: the pipelines live in a runner process, which it
starts, watches, and replaces when it dies or hangs. The same worker runs in a Spark task and in a
plain process.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from shardline.consumer.messages import (
    Acknowledged,
    ConsumerCalled,
    ConsumerReturned,
    FinishPipeline,
    GapFound,
    KeyIsParked,
    KeyParked,
    LeasesValid,
    PipelineBlocked,
    PipelineFailed,
    PipelineFinished,
    PipelineHalted,
    PipelineKey,
    PipelineStalled,
    Pulse,
    Quit,
    ShardProcessed,
    StartPipeline,
    StopPipeline,
)
from shardline.consumer.rates import Rates
from shardline.errors import LeaseLost
from shardline.leases.coordinator import TooManyParkedKeys
from shardline.leases.port import TableUnavailable
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardline.consumer.messages import FromRunner, ToRunner
    from shardline.core.leasing.holdings import Held
    from shardline.leases.coordinator import Coordinator
    from shardline.services.steps import Steps

logger = logging.getLogger(__name__)

_RECEIVE_SECONDS: Final = 0.2
_QUIT_SECONDS: Final = 2.0
"""How long a runner may take to end by itself."""
_FIRST_RESTART_SECONDS: Final = 1.0
_LONGEST_RESTART_SECONDS: Final = 30.0
_HEALTHY_SECONDS: Final = 60.0


class RunnerLink(Protocol):
    """A runner as its keeper sees it. See `consumer.link.RunnerProcess`."""

    def send(self, message: ToRunner) -> None:
        """Send a message; one to a dead runner is dropped."""

    def receive(self, timeout_seconds: float) -> FromRunner | None:
        """Return the next message, or None. Raises EOFError when the runner is gone."""

    def kill(self) -> None:
        """End the runner at once."""

    def wait(self, timeout_seconds: float) -> None:
        """Wait for the runner to end by itself, then end it."""


class StreamWork:
    """Passes what one stream's coordinator decides on to the runner."""

    def __init__(self, stream_name: str, worker: Worker) -> None:
        self._stream_name = stream_name
        self._worker = worker

    def start(self, shard_id: str, epoch: int, lease: Held) -> None:
        """Start a pipeline under a lease that was just taken."""
        self._worker.start(PipelineKey(self._stream_name, shard_id, epoch), lease)

    def finish(self, shard_id: str, epoch: int) -> None:
        """Finish a pipeline: another worker waits for its shard."""
        self._worker.finish(PipelineKey(self._stream_name, shard_id, epoch))

    def stop(self, shard_id: str, epoch: int) -> None:
        """Stop a pipeline: its lease is lost."""
        self._worker.stop(PipelineKey(self._stream_name, shard_id, epoch))


class Worker:
    """One worker of an app. `keep_steps` is its main loop, until `stop_requested` returns true."""

    def __init__(
        self,
        make_runner: Callable[[], RunnerLink],
        *,
        stop_requested: Callable[[], bool],
        silence_seconds: float,
        stop_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.coordinators: Mapping[str, Coordinator] = {}
        self.handed_back = False
        """True once it has left, with every delivery finished and every lease released."""
        self._rates = Rates()
        self._leaving = False
        self._make_runner = make_runner
        self._stop_requested = stop_requested
        self._silence_seconds = silence_seconds
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._runner: RunnerLink | None = None
        self._runner_started_at = 0.0
        self._heard_at = 0.0
        self._restarts = 0
        self._blocked = False
        self._running: dict[PipelineKey, StartPipeline] = {}
        self._finishing: set[PipelineKey] = set()
        self._called: set[PipelineKey] = set()
        """Pipelines without an acknowledgement that are in a call of the consumer."""
        self._valid_until = float("-inf")

    # --- what coordinators decide ----------------------------------------------------------------

    def start(self, key: PipelineKey, lease: Held) -> None:
        """Start a pipeline, after the runner knows until when its lease is valid."""
        if self._leaving:
            return  # released with the rest, a moment later
        message = StartPipeline(
            key,
            lease.checkpoint,
            lease.as_of,
            self._parked(key),
            lease.suspected,
            lease.stream_created_at,
        )
        self._running[key] = message  # a runner that is started later gets it then
        self._called.intersection_update(self._running)
        self._send_validity()
        self.send(message)

    def finish(self, key: PipelineKey) -> None:
        """Finish a pipeline; a runner that is started later hears of it then."""
        self._finishing.add(key)
        self.send(FinishPipeline(key))

    def stop(self, key: PipelineKey) -> None:
        """Stop a pipeline."""
        self._running.pop(key, None)
        self.send(StopPipeline(key))

    def send(self, message: ToRunner) -> None:
        """Send a message to the runner, if there is one."""
        if self._runner is not None:
            self._runner.send(message)

    # --- the main loop ---------------------------------------------------------------------------

    def keep_steps(self) -> Steps[None]:
        """Keep a runner at work until a stop is requested; then give everything back."""
        while not self._stop_requested():
            if self._runner is None:
                yield from self._start_runner()
            yield from self._exchange()
        yield from self._leave()

    def _start_runner(self) -> Steps[None]:
        if self._restarts:
            pause = min(
                _LONGEST_RESTART_SECONDS, _FIRST_RESTART_SECONDS * 2.0 ** (self._restarts - 1)
            )
            yield Pause(pause)
        self._runner = yield self._make_runner
        self._runner_started_at = self._heard_at = self._clock()
        self._valid_until = float("-inf")
        self._send_validity()
        self._finishing.intersection_update(list(self._running))
        for message in list(self._running.values()):
            self.send(message)
            if message.key in self._finishing:
                self.send(FinishPipeline(message.key))

    def _exchange(self) -> Steps[None]:
        """Receive one message, if there is one, and renew what the runner knows."""
        runner = self._runner
        if runner is None:
            return
        self._send_validity()
        try:
            message = yield partial(runner.receive, _RECEIVE_SECONDS)
        except (EOFError, OSError):
            yield from self._replace_runner("died")
            return
        now = self._clock()
        if message is not None:
            self._heard_at = now
            self.handle(message)
            if self._blocked:
                yield from self._replace_runner("still runs a consumer that was given up")
        elif now - self._heard_at > self._silence_seconds:
            yield from self._replace_runner(f"did not answer for {now - self._heard_at:.0f} s")

    def handle(self, message: FromRunner) -> None:
        """Pass on what a pipeline reports; what comes under a lost lease is dropped."""
        if isinstance(message, Pulse):
            self._summarize(message)
            return
        try:
            self._report(message)
        except LeaseLost as lost:
            logger.warning("%s", str(lost).splitlines()[0])
            self.send(StopPipeline(message.key))

    def _report(self, message: FromRunner) -> None:
        match message:
            case ConsumerCalled(key):
                self._called.add(key)
            case ConsumerReturned(key):
                self._called.discard(key)
            case Acknowledged(key, position, as_of, lag_ms):
                self._called.discard(key)
                self._rates.acknowledged(key, lag_ms)
                self._coordinator(key).checkpoint(key.shard_id, key.epoch, position, as_of, lag_ms)
            case ShardProcessed(key):
                self._running.pop(key, None)
                self._coordinator(key).complete(key.shard_id, key.epoch)
            case PipelineFinished(key):
                self._running.pop(key, None)
                self._coordinator(key).finish(key.shard_id, key.epoch)
            case KeyParked(key, record_key, letter_id):
                self._park(key, record_key, letter_id)
            case GapFound(key, text):
                self._coordinator(key).note_gap(key.shard_id, key.epoch, text)
            case PipelineHalted(key, reason):
                self._running.pop(key, None)
                logger.error("%s is halted: %s", key.shard_id, reason)
                self._coordinator(key).halt(key.shard_id, key.epoch, reason)
            case PipelineFailed(key, _, counted):
                self._running.pop(key, None)
                self._coordinator(key).restart(key.shard_id, key.epoch, counted=counted)
            case PipelineStalled(key, seconds):
                self._running.pop(key, None)
                reason = f"its consumer did not return for {seconds:.0f} s"
                self._coordinator(key).give_up(key.shard_id, key.epoch, reason)
            case PipelineBlocked():
                self._blocked = True
            case Pulse():
                pass

    def _park(self, key: PipelineKey, record_key: str, letter_id: str) -> None:
        """Park a key, and report when that is durable; the runner asks again until then."""
        try:
            self._coordinator(key).park(key.shard_id, key.epoch, record_key, letter_id)
        except TableUnavailable as error:
            logger.warning("%s: a key could not be parked: %s", key.shard_id, error)
        except TooManyParkedKeys as error:
            self.send(StopPipeline(key))
            self._report(PipelineHalted(key, str(error)))
        else:
            self.send(KeyIsParked(key, record_key))

    def _summarize(self, pulse: Pulse) -> None:
        """Put the rates of each stream into its next heartbeats."""
        summaries = self._rates.summaries(pulse, self._running, self._clock())
        for stream_name, summary in summaries.items():
            self.coordinators[stream_name].summarize(summary)

    def _replace_runner(self, what: str) -> Steps[None]:
        """Take every lease anew after the runner is gone: no epoch is worked under twice.

        That counts as a failure only in the shards whose consumer was called at that moment. One
        that is replaced because a call blocks a shard is replaced at once: the others wait for it.
        """
        runner, blocked = self._runner, self._blocked
        self._runner, self._blocked = None, False
        logger.error("the process that runs the consumer %s; starting another", what)
        if runner is not None:
            yield runner.kill
        healthy = self._clock() - self._runner_started_at > _HEALTHY_SECONDS
        self._restarts = 0 if blocked else 1 if healthy else self._restarts + 1
        for key in sorted(self._running):
            reason = f"the process that ran its consumer {what}"
            self.handle(PipelineFailed(key, reason, counted=key in self._called))
        self._called.clear()

    def _leave(self) -> Steps[None]:
        """Finish the running deliveries, then release the leases.

        A runner that did not finish in time is ended first: one that was stopped, or swapped out,
        would begin deliveries when it goes on, before it reads that its leases are released.
        """
        self._leaving = True
        deadline = self._clock() + self._stop_seconds
        for key in sorted(self._running):
            self.send(FinishPipeline(key))
        while self._running and self._runner is not None and self._clock() < deadline:
            yield from self._exchange()
        handed_back = not self._running
        if not handed_back:
            for key in sorted(self._running):
                self.send(StopPipeline(key))
            yield from self._end_runner()
        for coordinator in self.coordinators.values():
            released = yield partial(coordinator.leave, max(1.0, deadline - self._clock()))
            handed_back = handed_back and released
        self.handed_back = handed_back
        yield from self._end_runner()

    def _end_runner(self) -> Steps[None]:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.send(Quit())
            yield partial(runner.wait, _QUIT_SECONDS)

    def _send_validity(self) -> None:
        until = min((c.valid_until() for c in self.coordinators.values()), default=float("-inf"))
        if until != self._valid_until:
            self._valid_until = until
            self.send(LeasesValid(until))

    def _coordinator(self, key: PipelineKey) -> Coordinator:
        return self.coordinators[key.stream_name]

    def _parked(self, key: PipelineKey) -> frozenset[str]:
        return frozenset(self._coordinator(key).parked(key.shard_id))
