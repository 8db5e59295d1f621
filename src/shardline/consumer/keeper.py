"""The life of one worker in a keeper process: a Spark task, or a thread of `shardline run`."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from shardline.consumer.link import RunnerProcesses
from shardline.consumer.worker import StreamWork, Worker
from shardline.core.leasing.runs import RunState
from shardline.errors import GapError, ShardlineError
from shardline.leases.address import open_table
from shardline.leases.coordinator import Coordinator
from shardline.services.addresses import parse_address
from shardline.services.clock import boot_seconds
from shardline.services.connection import connect
from shardline.services.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.consumer.job import Job, StreamSource
    from shardline.leases.port import LeaseTable
    from shardline.services.port import StreamService

logger = logging.getLogger(__name__)

_ENDS: Final = {RunState.STOPPING, RunState.ABANDONED, RunState.MISSING}
_SILENCE_SECONDS: Final = 30.0
"""A runner that says nothing for this long is killed: it says something every second."""


def keep(
    job: Job,
    index: int,
    attempt: int,
    leave: Callable[[], bool] = lambda: False,
    runners: RunnerProcesses | None = None,
) -> None:
    """Be worker `index` of a job until its run is stopped, or `leave` returns true.

    Raises what makes the work impossible, such as a lease table without the run's row, and
    `ShardlineError` if not everything could be handed back.
    """
    runners = runners or RunnerProcesses()
    table = open_table(job.leases.address, job.leases.access)
    try:
        table.prepare()
        _Keeper(job, table, f"{job.run_id}/{index}/{attempt}", leave, runners).keep()
    finally:
        runners.close()
        table.close()


class _Keeper:
    def __init__(
        self,
        job: Job,
        table: LeaseTable,
        name: str,
        leave: Callable[[], bool],
        runners: RunnerProcesses,
    ) -> None:
        self._job = job
        self._leave = leave
        self._woken = threading.Event()
        self._worker = Worker(
            partial(runners.make, job),
            stop_requested=self._stop_requested,
            silence_seconds=_SILENCE_SECONDS,
            stop_seconds=job.stop_seconds,
            clock=boot_seconds,
        )
        self._services = {
            s.name: connect(s.address, s.access, wire=s.wire, snapshot=s.snapshot)
            for s in job.streams
        }
        self._worker.coordinators = {
            stream_name: Coordinator(
                table,
                service,
                job.app,
                stream_name,
                name,
                start=job.start,
                times=job.times,
                work=StreamWork(stream_name, self._worker),
                run_id=job.run_id,
                goes_on_after_gaps=job.go_on_after_gaps,
                expect_app=job.expect_app,
                clock=boot_seconds,
                open_from=_opener(source),
            )
            for source, (stream_name, service) in zip(
                job.streams, self._services.items(), strict=True
            )
        }

    def keep(self) -> None:
        """Run until a stop; every lease is given back, or the worker waited long enough."""
        try:
            for coordinator in self._worker.coordinators.values():
                coordinator.start()
            run(self._worker.keep_steps(), sleep=self._woken.wait)
        finally:
            for service in self._services.values():
                service.close()
        for error in self._errors():
            raise error
        if not self._worker.handed_back:
            raise ShardlineError("not every delivery was finished, or not every lease handed back")

    def _stop_requested(self) -> bool:
        states = {c.run_state() for c in self._worker.coordinators.values()}
        return self._leave() or bool(states & _ENDS) or bool(self._errors())

    def _errors(self) -> list[Exception]:
        """Return what makes the work impossible; a gap stops only the shards that it concerns."""
        errors = (coordinator.error() for coordinator in self._worker.coordinators.values())
        return [error for error in errors if error and not isinstance(error, GapError)]


def _opener(source: StreamSource) -> Callable[[datetime], StreamService] | None:
    """Return how to open an earlier or later stream of a table; None where there is but one."""
    where = parse_address(source.address)
    if where.service != "dynamodb" or where.stream_arn is not None:
        return None

    def open_from(created_from: datetime) -> StreamService:
        return connect(
            source.address, source.access, snapshot=source.snapshot, created_from=created_from
        )

    return open_from
