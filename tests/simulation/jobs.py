"""Runs seeds in several processes, and ends these as soon as enough is known."""

from __future__ import annotations

import gc
import logging
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

T = TypeVar("T")


def outcomes_of(run: Callable[[int], T], seeds: range, jobs: int) -> Generator[T]:
    """Run seeds, in several processes if there are jobs for them; close it to end them early."""
    if jobs == 1:
        gc.freeze()
        yield from map(run, seeds)
        return
    context = get_context("spawn")
    running: dict[Any, BaseProcess] = {}
    try:
        for job in range(jobs):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_send_outcomes, args=(run, seeds[job::jobs], theirs))
            process.start()
            theirs.close()
            running[ours] = process
        while running:
            ready: list[Any] = wait(list(running))
            for connection in ready:
                outcome: T | None = connection.recv()
                if outcome is None:
                    running.pop(connection).join()
                else:
                    yield outcome
    finally:
        for left in running.values():
            left.terminate()
            left.join()


def _send_outcomes(run: Callable[[int], Any], seeds: range, connection: Connection) -> None:
    """Run seeds in a process of their own. None comes after the last outcome."""
    logging.disable(logging.CRITICAL)
    gc.freeze()
    for seed in seeds:
        connection.send(run(seed))
    connection.send(None)
