"""Loops in threads: each call runs alone, without the lock that all shards of a runner share."""

from __future__ import annotations

from threading import Event, RLock
from typing import TYPE_CHECKING

import pytest

from shardline.consumer.loops import ThreadLoop
from tests.contract.reading import wait_until

if TYPE_CHECKING:
    from shardline.services.steps import Steps


@pytest.mark.req("K-26", "P-04")
@pytest.mark.case("X-34")
def test_a_call_that_hangs_holds_up_no_other_loop() -> None:
    lock, released, done = RLock(), Event(), Event()

    def calls(call: object) -> Steps[None]:
        yield call  # type: ignore[misc]

    hanging = ThreadLoop("hangs", calls(lambda: released.wait(60)), lock, lambda: False)
    hanging.start()
    try:
        wait_until(lambda: hanging.call_began is not None, "the call that hangs")
        other = ThreadLoop("goes on", calls(done.set), lock, lambda: False)
        other.start()
        assert done.wait(10)
    finally:
        released.set()
    wait_until(lambda: hanging.ended, "the end of the call")


def test_a_loop_keeps_what_ended_it() -> None:
    def steps() -> Steps[None]:
        yield lambda: 1 / 0

    loop = ThreadLoop("fails", steps(), RLock(), lambda: False)
    loop.start()
    wait_until(lambda: loop.ended, "the end of the loop")
    assert isinstance(loop.failure, ZeroDivisionError)
