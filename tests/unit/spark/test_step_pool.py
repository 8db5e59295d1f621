"""Many steps on few threads."""

from __future__ import annotations

import queue
import threading
from typing import Any

from shardline.services.steps import Pause, Steps
from shardline.spark.step_pool import StepPool, run_together


def doubled(number: int) -> Steps[int]:
    result: int = yield lambda: number * 2
    yield Pause(0.001)
    return result


def fails() -> Steps[None]:
    yield lambda: [][0]


def test_more_steps_than_threads_all_end() -> None:
    pool = StepPool(2)
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for number in range(20):
        pool.submit(doubled(number), lambda result, error: results.put((result, error)))
    found = [results.get(timeout=20) for _ in range(20)]
    assert sorted(found) == [(number * 2, None) for number in range(20)]
    pool.close()


def test_a_pause_holds_no_thread() -> None:
    pool = StepPool(1)
    gate, done = threading.Event(), threading.Event()

    def waits() -> Steps[None]:
        while not gate.is_set():
            yield Pause(0.001)

    def opens() -> Steps[None]:
        yield gate.set

    pool.submit(waits(), lambda _, __: done.set())
    pool.submit(opens(), lambda _, __: None)
    assert done.wait(20)
    pool.close()


def test_what_a_call_raises_is_handed_over() -> None:
    pool = StepPool(1)
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pool.submit(fails(), lambda _, error: results.put(error))
    assert isinstance(results.get(timeout=20), IndexError)
    pool.close()


def test_results_come_in_the_order_of_the_steps() -> None:
    assert run_together([doubled(number) for number in range(5)]) == [0, 2, 4, 6, 8]
