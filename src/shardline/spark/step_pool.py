"""Runs many steps at once on few threads: a pause holds no thread."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from shardline.services.clock import boot_seconds
from shardline.services.steps import Pause, Steps, run

RunAll = Callable[[list[Steps[Any]]], list[Any]]
"""Runs several steps to their ends, and returns their results in the same order."""

_THREADS: Final = 16


def run_together(all_steps: list[Steps[Any]]) -> list[Any]:
    """Run several steps at once in threads, and return their results; raise what one raises."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(run, all_steps))


@dataclass(order=True, slots=True)
class _Job:
    due: float
    number: int
    steps: Steps[Any] = field(compare=False)
    resume: Callable[[], Any] = field(compare=False)
    done: Callable[[Any, BaseException | None], None] = field(compare=False)


class StepPool:
    """A number of daemon threads that make the calls of many steps, each when it is due.

    Threads are made when they are needed, so that a pool that is never used costs nothing.
    """

    def __init__(self, threads: int, name: str = "shardline-steps") -> None:
        self._most_threads = threads
        self._name = name
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._number = 0
        self._threads = 0
        self._waiting = 0
        self._closed = False

    def submit(
        self,
        steps: Steps[Any],
        done: Callable[[Any, BaseException | None], None],
        delay_seconds: float = 0.0,
    ) -> None:
        """Run steps; `done` is called in a thread of the pool with the result or the error."""
        with self._changed:
            self._number += 1
            job = _Job(
                boot_seconds() + delay_seconds, self._number, steps, partial(next, steps), done
            )
            self._push(job)

    def close(self) -> None:
        """Run nothing more. A call that is being made is not waited for."""
        with self._changed:
            self._closed = True
            self._jobs.clear()
            self._changed.notify_all()

    def _push(self, job: _Job) -> None:
        if self._closed:
            return
        heapq.heappush(self._jobs, job)
        if not self._waiting and self._threads < self._most_threads:
            self._threads += 1
            name = f"{self._name}-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._changed.notify()

    def _work(self) -> None:
        while True:
            job = self._next_job()
            if job is None:
                return
            self._run(job)

    def _next_job(self) -> _Job | None:
        with self._changed:
            while not self._closed:
                wait = self._jobs[0].due - boot_seconds() if self._jobs else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._jobs)
                self._waiting += 1
                self._changed.wait(wait)
                self._waiting -= 1
            return None

    def _run(self, job: _Job) -> None:
        """Make the calls of a job until it pauses or ends."""
        while True:
            try:
                step = job.resume()
            except StopIteration as stop:
                job.done(stop.value, None)
                return
            except BaseException as error:
                job.done(None, error)
                return
            if isinstance(step, Pause):
                job.resume = partial(job.steps.send, None)
                job.due = boot_seconds() + step.seconds
                with self._changed:
                    self._push(job)
                return
            try:
                job.resume = partial(job.steps.send, step())
            except Exception as error:
                job.resume = partial(job.steps.throw, error)
