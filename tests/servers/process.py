"""Starts a server process on a free port, waits until it answers, and ends it for sure."""

from __future__ import annotations

import atexit
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ATTEMPTS: Final = 5
"""How often another port is tried: a port that was free may be taken before the server binds it."""

PORT_TAKEN: Final = ("EADDRINUSE", "address already in use", "bindexception", "failed to bind")

# The kernel ends the server when the thread that started it is gone, even after kill -9 of pytest.
# Done by the child itself, because code between fork and exec may deadlock a threaded parent; and
# after it became another user, because that undoes it (the user may have no right to this Python).
_DIE_WITH_PARENT: Final = """
import ctypes, os, sys
user, group, death_signal, parent, *command = sys.argv[1:]
if user != "-":
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(death_signal), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the process that wanted this server is gone")
os.execvp(command[0], command)
"""


class ServerMissing(Exception):
    """The server is not installed here; the message says how to get it."""


class ServerFailed(Exception):
    """The server is installed but did not come up; the message ends with what it printed."""


@dataclass(frozen=True)
class Launch:
    """How to start one server on one port."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGKILL


@contextmanager
def running(
    name: str,
    launch: Callable[[int], Launch],
    answers: Callable[[int], bool],
    *,
    start_seconds: float = 60,
) -> Iterator[int]:
    """Run the server that `launch(port)` describes; yields its port once `answers(port)`."""
    with tempfile.TemporaryDirectory(prefix="shardline-server-") as folder:
        log = Path(folder, "output")
        printed = ""
        for _ in range(ATTEMPTS):
            with reserved_port() as port:
                how = launch(port)
                process = _start(how, log)
                stop = _Stop(process, how.stop_signal)
                atexit.register(stop)
                try:
                    if _wait(process, port, answers, start_seconds):
                        yield port
                        return
                    printed = log.read_text(errors="replace")
                finally:
                    stop()
                    atexit.unregister(stop)
            if not any(words.lower() in printed.lower() for words in PORT_TAKEN):
                break
        raise ServerFailed(f"{name} did not answer; it printed:\n{printed[-2000:]}")


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody listens on, and that no other run of these tests takes meanwhile.

    Whoever holds the UDP port of that number has the TCP port: else the server of another run could
    answer in place of one that is still starting and about to fail.
    """
    port = free_port()
    with socket.socket(type=socket.SOCK_DGRAM) as reservation:
        while True:
            with suppress(OSError):
                reservation.bind(("127.0.0.1", port))
                break
            port = free_port()
        yield port


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def dying_with_parent(
    command: Sequence[str], user: str | None = None, number: signal.Signals = signal.SIGKILL
) -> list[str]:
    """Return a command that the kernel ends by a signal when the thread that starts it is gone."""
    guard = [sys.executable, "-S", "-E", "-c", _DIE_WITH_PARENT, *_ids(user)]
    return [*guard, f"{number:d}", f"{os.getpid()}", *command]


def _start(how: Launch, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            dying_with_parent(how.command, how.user, how.stop_signal),
            env={**os.environ, **how.environment},
            cwd=how.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _ids(user: str | None) -> tuple[str, str]:
    if user is None:
        return "-", "-"
    entry = pwd.getpwnam(user)
    return str(entry.pw_uid), str(entry.pw_gid)


def _wait(
    process: subprocess.Popen[bytes],
    port: int,
    answers: Callable[[int], bool],
    start_seconds: float,
) -> bool:
    deadline = time.monotonic() + start_seconds
    while process.poll() is None and time.monotonic() < deadline:
        if answers(port):
            return True
        time.sleep(0.05)
    return False


@dataclass(frozen=True)
class _Stop:
    process: subprocess.Popen[bytes]
    stop_signal: signal.Signals

    def __call__(self) -> None:
        """End the process and all it started: politely where that was asked for, then for sure."""
        if self.stop_signal != signal.SIGKILL and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
