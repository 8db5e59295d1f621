"""The link between a keeper and its runner, with a real child process."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

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


_REPORTS_ITS_POOL = """
import pyarrow
from pathlib import Path
def main(*_):
    Path(__file__).with_name("pool").write_text(pyarrow.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize(("chosen", "used"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_a_runner_keeps_no_memory_for_each_of_its_threads_unless_the_user_chose_a_pool(
    chosen: str | None, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shardline" / "consumer"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    (folder / "link.py").write_text(_REPORTS_ITS_POOL)
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    if chosen is not None:
        monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", chosen)
    runner = link.RunnerProcess([str(tmp_path), *sys.path])
    runner.wait(60)
    assert (folder / "pool").read_text() == used
