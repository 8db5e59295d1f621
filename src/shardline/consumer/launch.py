"""Starts the workers of a run and keeps them running: the same for Spark and for one process.

The launcher writes the run's row into the lease table, renews it as long as it lives, and marks
it when the run is to stop. Workers read that row; nothing else connects them with the launcher.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from shardline.consumer.status import Figures, figures_of
from shardline.core.leasing.runs import OldRuns, Run
from shardline.errors import ConfigurationError, ShardlineError
from shardline.leases.address import open_table
from shardline.services.clock import boot_seconds
from shardline.services.fan_out.registration import ensure_consumer
from shardline.services.log_limits import LogLimit, and_before

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.consumer.job import Job
    from shardline.core.leasing.rows import Heartbeat, LeaseRow

logger = logging.getLogger(__name__)

_RENEW_SECONDS: Final = 5.0
_OLD_RUNS_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_HEALTHY_SECONDS: Final = 60.0
_TRIES_TO_STOP: Final = 3


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a run ended."""

    handed_back: bool
    """Every worker ended by itself: all that was processed is checkpointed, leases are free."""
    failure: str | None = None
    """What made the work impossible, in one line."""


class RunningConsumer:
    """A consumer that runs. End it with `stop`, and the others need not wait for its leases."""

    def __init__(
        self,
        job: Job,
        workers: int,
        place: Callable[[Job, int, int], None],
        cancel: Callable[[], None] = lambda: None,
        stopping: threading.Event | None = None,
    ) -> None:
        """Start `workers` workers; `cancel` breaks off those that do not end by themselves.

        `stopping` is set by a stop, for workers that need not read it in the lease table.
        """
        self.run_id: Final = job.run_id
        self.workers: Final = workers
        self._job = job
        self._place = place
        self._cancel = cancel
        self._table = open_table(job.leases.address, job.leases.access)
        self._stopping = stopping or threading.Event()
        self._failure: str | None = None
        self._broken_off = False
        self._log_limit = LogLimit()
        self._table.prepare()
        self.new_streams: Final = tuple(
            s.address for s in job.streams if self._table.read_header(job.app, s.name) is None
        )
        """The streams on which the app has no leases yet: it begins there anew."""
        if job.expect_app and self.new_streams:
            raise ConfigurationError(
                f"the app {job.app!r} has no leases on {', '.join(self.new_streams)} in "
                f"{job.leases.name}: check both names, or leave --expect-app out to begin anew"
            )
        for source in job.streams:
            if source.fan_out is not None:
                ensure_consumer(source.address, source.access, source.fan_out)
        self._run = self._table.write_run(Run(job.app, self.run_id, datetime.now(UTC), workers))
        self._threads = [
            threading.Thread(target=self._keep_worker, args=(i,), name=f"worker {i}", daemon=True)
            for i in range(workers)
        ]
        self._renewals = threading.Thread(target=self._renew, name="renewals", daemon=True)
        for thread in (self._renewals, *self._threads):
            thread.start()

    # --- for whoever started it -----------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether any worker still runs."""
        return any(thread.is_alive() for thread in self._threads)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the run ends; false if it still runs. Raises what made it impossible."""
        deadline = None if timeout_seconds is None else boot_seconds() + timeout_seconds
        for thread in self._threads:
            left = None if deadline is None else max(0.0, deadline - boot_seconds())
            thread.join(left)
        if self._failure is not None and not self.running:
            raise ConfigurationError(self._failure)
        return not self.running

    def stop(self, grace_seconds: float = 30.0, abandon: threading.Event | None = None) -> Stopped:
        """Stop the run: workers finish their deliveries, checkpoint and give their leases back.

        What takes longer than the grace, or `abandon`, is broken off: it is not acknowledged, and
        whoever gets its shards repeats it.
        """
        abandon = abandon or threading.Event()
        deadline = boot_seconds() + grace_seconds
        # In a thread of its own: a table that does not answer must not take more than the grace.
        marking = threading.Thread(target=self._mark_stopping, name="stop", daemon=True)
        marking.start()
        while self.running and boot_seconds() < deadline and not abandon.wait(0.05):
            pass
        handed_back = not self.running
        if handed_back:
            marking.join(max(0.0, deadline - boot_seconds()))
        else:
            self._cancel()
        self._table.close()
        return Stopped(handed_back and not self._broken_off, self._failure)

    def heartbeats(self) -> list[Heartbeat]:
        """Return the heartbeats of this run's workers, over all streams."""
        return [
            beat
            for source in self._job.streams
            for beat in self._table.read_heartbeats(self._job.app, source.name)
            if beat.worker.startswith(f"{self.run_id}/")
        ]

    def figures(self) -> Figures:
        """Return what the run does now, as the lease table has it."""
        rows: list[LeaseRow] = []
        for source in self._job.streams:
            after: str | None = None
            while True:
                page = self._table.scan_rows(self._job.app, source.name, after, 1000)
                rows.extend(page.rows)
                after = page.next_after
                if after is None:
                    break
        return figures_of(self.workers, self.heartbeats(), rows)

    # --- threads --------------------------------------------------------------------------------

    def _keep_worker(self, index: int) -> None:
        """Start a worker again whenever it ends, with pauses, until the run stops."""
        attempt = failures = 0
        while not self._stopping.is_set():
            started_at = boot_seconds()
            try:
                self._place(self._job, index, attempt)
                if self._stopping.is_set():
                    return
                reason = "ended"
            except ConfigurationError as error:
                self._failure = str(error)
                self._mark_stopping()
                return
            except Exception as error:
                if self._stopping.is_set():
                    logger.warning("worker %d: %s", index, _first_line(error))
                    self._broken_off = True
                    return
                reason = _first_line(error)
            attempt += 1
            healthy = boot_seconds() - started_at > _HEALTHY_SECONDS
            failures = 1 if healthy else failures + 1
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (failures - 1))
            logger.warning("worker %d: %s; starting it again in %.0f s", index, reason, pause)
            self._stopping.wait(pause)

    def _renew(self) -> None:
        """Renew the row of this run, and delete those of runs that are long over."""
        old_runs, looked_at = OldRuns(self.run_id, self._job.times.abandon_seconds), float("-inf")
        while not self._stopping.wait(_RENEW_SECONDS):
            self._write(partial(self._table.write_run, self._run))
            if boot_seconds() - looked_at >= _OLD_RUNS_SECONDS:
                looked_at = boot_seconds()
                self._delete(old_runs)

    def _delete(self, old_runs: OldRuns) -> None:
        try:
            runs = self._table.read_runs(self._job.app)
            for run in old_runs.observe(runs, boot_seconds(), datetime.now(UTC)):
                self._table.delete_run(run)
        except ShardlineError as error:
            logger.warning("the rows of old runs could not be deleted: %s", error)

    def _mark_stopping(self) -> None:
        self._stopping.set()
        for _ in range(_TRIES_TO_STOP):
            if self._write(partial(self._table.stop_run, self._run.app_name, self.run_id)):
                return

    def _write(self, write: Callable[[], Run]) -> bool:
        try:
            self._run = write()
        except ShardlineError as error:
            held_back = self._log_limit.admit("run", boot_seconds())
            if held_back is not None:
                more = and_before(held_back)
                logger.warning("the row of run %s was not written: %s%s", self.run_id, error, more)
            return False
        return True


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
