"""The link between a keeper and its runner, with a real child process."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from shardline.consumer import link
from shardline.consumer.messages import Quit


@pytest.mark.case("X-30")
def test_a_runner_that_takes_no_message_is_killed_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "SEND_SECONDS", 0.3)
    runner = link.RunnerProcess(sys.path)
    os.kill(runner._process.pid, signal.SIGSTOP)
    for _ in range(2_000):  # far more than the socket holds
        runner.send(Quit())
    with pytest.raises((EOFError, ConnectionError)):
        runner.receive(30)
    runner.kill()
