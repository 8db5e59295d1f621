"""SIGTERM and kill -9 while commands start: nothing is left that the next start does not clean."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardline.cli.demo.recorder import LOG_VARIABLE
from shardline.local import Service
from tests.integration.worker_runs import RECORDER, wait_until
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOW_IMPORT = """
import time
from pathlib import Path
from shardline.cli.demo.recorder import Recorder
Path("imported").touch()
while Path("slow").exists():
    time.sleep(0.02)
"""


OPEN_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Command:
    """A command in a folder and a session of its own, with a temporary folder of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.temporary = folder, folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "shardline", *arguments],
                cwd=folder,
                env=os.environ
                | {
                    "TMPDIR": str(self.temporary),
                    "PYTHONUNBUFFERED": "1",
                    LOG_VARIABLE: str(folder / "log.jsonl"),
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def end(self, number: signal.Signals) -> int:
        """Send a signal to the process alone; return its exit code when its children ended, too."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        wait_until(lambda: not processes_of(self.process.pid), "its children end with it")
        return code


def processes_of(session: int) -> list[int]:
    """Return the processes of a session that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[3]) == session and after_name[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True) as service:
        client = service.client("kinesis")
        client.create_stream(StreamName="orders", ShardCount=2)
        wait_until_active(client, "orders")
        yield service


def run_command(folder: Path, service: Service, consumer: str = RECORDER) -> Command:
    return Command(folder, *run_arguments(folder, service, consumer))


def run_arguments(folder: Path, service: Service, consumer: str = RECORDER) -> list[str]:
    return [
        *("run", consumer, "--engine", "process", "--app", "billing", "--lease-seconds", "3"),
        *("--status-seconds", "1"),
        *("--stream", "kinesis://orders", "--endpoint-url", service.endpoint_url),
        *("--lease-table", f"sqlite:///{folder}/leases.db"),
    ]


def importing(folder: Path, service: Service, *more: str) -> Command:
    """Return a run that imports its consumer."""
    (folder / "slow").touch()
    (folder / "billing.py").write_text(SLOW_IMPORT)
    command = Command(folder, *run_arguments(folder, service, "billing:Recorder"), *more)
    wait_until((folder / "imported").exists, "the consumer is imported")
    return command


def describing(folder: Path, service: Service) -> Command:
    """Return a run that waits for the service."""
    hang = service.faults.add("hang", seconds=60)
    command = run_command(folder, service)
    wait_until(lambda: hang not in service.faults.pending(), "it has called")
    return command


def at_work(folder: Path, service: Service) -> Command:
    """Return a run whose worker has taken its leases."""
    command = run_command(folder, service)
    wait_until(lambda: "2 shards" in command.output, "it has its leases")
    return command


@pytest.mark.parametrize("stage", [importing, describing])
@pytest.mark.req("K-51")
def test_a_signal_ends_a_starting_run_at_once(
    stage: Callable[[Path, Service], Command], tmp_path: Path, service: Service
) -> None:
    command = stage(tmp_path, service)
    assert command.end(signal.SIGTERM) == 0
    assert command.output == "stopped while starting: no lease was taken\n"
    assert list(command.temporary.iterdir()) == []


def test_the_password_of_a_lease_table_does_not_stay_in_the_list_of_processes(
    tmp_path: Path, service: Service
) -> None:
    command = importing(tmp_path, service, "--lease-table", "postgresql://ann:hu/s@h@db/leases")
    shown = [
        Path(f"/proc/{each}/cmdline").read_text() for each in processes_of(command.process.pid)
    ]
    command.end(signal.SIGKILL)
    assert any("postgresql://" in line for line in shown)
    assert not any("s@h" in line for line in shown)


@pytest.mark.parametrize("stage", [importing, describing, at_work])
@pytest.mark.req("K-10")
def test_a_run_that_is_killed_leaves_nothing_that_stops_the_next(
    stage: Callable[[Path, Service], Command], tmp_path: Path, service: Service
) -> None:
    killed = stage(tmp_path, service)
    assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    assert list(killed.temporary.iterdir()) == []
    service.faults.clear()
    (tmp_path / "slow").unlink(missing_ok=True)
    again = at_work(tmp_path, service)
    assert again.end(signal.SIGTERM) == 0
    assert "every lease handed back" in again.output
    assert list(again.temporary.iterdir()) == []


@pytest.mark.req("K-51")
@pytest.mark.parametrize("nohup", [False, True])
def test_a_terminal_that_is_closed_hands_back_every_lease_unless_it_was_not_to(
    nohup: bool, tmp_path: Path, service: Service
) -> None:
    """As a signal does. Under nohup the run goes on without its terminal."""
    terminal, inside = pty.openpty()
    output = tmp_path / "output"
    with output.open("wb") as stdout:
        run = subprocess.Popen(
            [
                *(sys.executable, "-c", OPEN_TERMINAL, *(["nohup"] if nohup else [])),
                *(sys.executable, "-m", "shardline", *run_arguments(tmp_path, service), "--json"),
            ],
            stdin=inside,
            stdout=stdout,
            stderr=inside,
            env=os.environ | {LOG_VARIABLE: str(tmp_path / "log.jsonl")},
            start_new_session=True,
        )
    os.close(inside)
    try:
        wait_until(lambda: '"shards": 2' in output.read_text(), "it has its leases")
        os.close(terminal)
        if nohup:
            lines = output.read_text().count('"status"')
            wait_until(lambda: output.read_text().count('"status"') > lines + 1, "it goes on")
            assert run.poll() is None
            run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0
        assert '"handed_back": true' in output.read_text()
    finally:
        run.kill()
        run.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_service_that_is_ended_starts_again_on_its_file(
    number: signal.Signals, tmp_path: Path
) -> None:
    for _ in range(2):
        command = Command(
            tmp_path, "local", "--port", "0", "--json", "--file", "journal.db", "--stream", "a:2"
        )
        wait_until(lambda: '"ready"' in command.output, "it is ready")  # noqa: B023
        command.end(number)
        assert '"open_shards":2' in command.output.replace(" ", "")
        assert list(command.temporary.iterdir()) == []


def test_a_signal_to_the_service_reaches_the_program_that_it_runs(tmp_path: Path) -> None:
    program = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(600)"
    command = Command(tmp_path, "local", "--", sys.executable, "-c", program)
    wait_until((tmp_path / "begun").exists, "the program runs")
    assert command.end(signal.SIGTERM) == 128 + signal.SIGTERM


def test_a_dashboard_ends_cleanly_at_a_signal(tmp_path: Path, service: Service) -> None:
    command = Command(
        tmp_path,
        *("dashboard", "--stream", "kinesis://orders", "--port", "0"),
        *("--endpoint-url", service.endpoint_url),
    )
    wait_until(lambda: "http://" in command.output, "it serves")
    assert command.end(signal.SIGTERM) == 0, command.output
