"""Steps run in a thread: calls are made, pauses kept, errors thrown in."""

from __future__ import annotations

from threading import Lock

import pytest

from shardline.services.steps import Pause, Steps, run


def test_calls_pauses_and_results() -> None:
    lock, slept = Lock(), list[float]()

    def steps() -> Steps[str]:
        assert lock.locked()
        first = yield lambda: "a" if not lock.locked() else "the lock is held during a call"
        yield Pause(1.5)
        try:
            yield lambda: 1 / 0
        except ZeroDivisionError:
            return f"{first}b"
        return "not thrown in"

    assert run(steps(), lock=lock, sleep=slept.append) == "ab"
    assert slept == [1.5]


def test_what_is_not_caught_leaves() -> None:
    def steps() -> Steps[None]:
        yield lambda: 1 / 0

    with pytest.raises(ZeroDivisionError):
        run(steps())
