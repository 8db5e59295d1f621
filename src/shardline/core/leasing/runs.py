"""The row of a run: how the launcher of a set of workers reaches them, in the lease table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

_KEPT: Final = timedelta(days=3)
"""A row is kept for this long at least: a task that starts late finds that its run has ended."""


@dataclass(frozen=True, slots=True)
class Run:
    """One start of an app by a launcher. Its key is (app_name, run_id): it may read many streams.

    The row is kept for days after the run, so that a task that starts late still finds it.
    """

    app_name: str
    run_id: str
    created_at: datetime
    workers: int = 0
    """How many workers the launcher wants."""
    renewed: int = 0
    """Moves as long as the launcher lives. It is not a time: observe it on your own clock."""
    stopping: bool = False
    """Set once, and never cleared: workers of this run end."""


class RunState(Enum):
    """What the row of its run means for a worker."""

    UNKNOWN = "unknown"
    """It was not read yet: the worker takes nothing."""
    RUNNING = "running"
    MISSING = "missing"
    """The table that the worker opened has no such row: probably it is another table."""
    STOPPING = "stopping"
    ABANDONED = "abandoned"
    """The launcher has not renewed the row for too long."""


class RunObserver:
    """Observes the row of a run on the worker's own clock. Without a run it is always running."""

    def __init__(self, run_id: str | None, abandon_seconds: float) -> None:
        self._abandon_seconds = abandon_seconds
        self._renewed: int | None = None
        self._since = 0.0
        self.state = RunState.UNKNOWN if run_id is not None else RunState.RUNNING
        self.workers = 1
        """How many workers the launcher wants."""

    def read(self, run: Run | None, now: float) -> None:
        """Record the row as just read. A worker that is to end never runs again."""
        if self.state in {RunState.STOPPING, RunState.ABANDONED}:
            return
        if run is None:
            self.state = RunState.MISSING
            return
        self.workers = run.workers
        if run.renewed != self._renewed:
            self._renewed, self._since = run.renewed, now
        if run.stopping:
            self.state = RunState.STOPPING
        elif now - self._since > self._abandon_seconds:
            self.state = RunState.ABANDONED
        else:
            self.state = RunState.RUNNING


class OldRuns:
    """Finds the runs that are over, among all runs of an app, for the launcher of one of them.

    No row says when its run ended. A run is over if it began days ago and its row stood still for
    longer than its workers go on without a launcher, on the observer's own clock.
    """

    def __init__(self, run_id: str, abandon_seconds: float) -> None:
        self._run_id = run_id
        self._silent_seconds = 2 * abandon_seconds
        self._since: dict[str, tuple[int, float]] = {}
        """How often each run was renewed, and since when that has not changed."""

    def observe(self, runs: Iterable[Run], now: float, today: datetime) -> list[Run]:
        """Take in all rows as just read; return those to delete."""
        old = [r for r in runs if r.run_id != self._run_id and today - r.created_at > _KEPT]
        before, self._since = self._since, {}
        for run in old:
            renewed, since = before.get(run.run_id, (run.renewed, now))
            self._since[run.run_id] = (run.renewed, since if renewed == run.renewed else now)
        return [r for r in old if now - self._since[r.run_id][1] > self._silent_seconds]
