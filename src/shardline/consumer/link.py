"""The connection between a keeper and its runner: a child process and a socket between the two."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from shardline.consumer.job import Job
    from shardline.consumer.messages import FromRunner, ToRunner

_LENGTH: Final = struct.Struct("!I")
_PR_SET_PDEATHSIG: Final = 1
_ARROW_POOL: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Pages are made in one thread of a shard and freed in another. Arrow's own pool keeps memory for
each thread: three times as much with 80 shards, and records wait while it grows."""
SEND_SECONDS = 10.0
"""A runner that takes no message for this long is killed: nobody must wait for it with leases."""


class Channel:
    """Sends and receives pickled values over a socket; sending is safe from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = Lock()
        self._received = bytearray()

    def send(self, message: Any) -> None:
        """Send a value. Raises OSError when the other side is gone."""
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with self._sending:
            self._connection.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self, timeout_seconds: float | None = None) -> Any:
        """Return the next value, or None after the time-out. Raises EOFError at the end."""
        while True:
            if len(self._received) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._received)
                end = _LENGTH.size + length
                if len(self._received) >= end:
                    body = bytes(self._received[_LENGTH.size : end])
                    del self._received[:end]
                    return pickle.loads(body)  # noqa: S301 - our own process
            if not select.select([self._connection], [], [], timeout_seconds)[0]:
                return None
            part = self._connection.recv(1 << 16)
            if not part:
                raise EOFError("the other process is gone")
            self._received += part

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


class RunnerProcess:
    """A runner in a child process, never forked: it inherits nothing but the module path."""

    def __init__(self, path: list[str]) -> None:
        """Start the process. It imports what it needs from `path`, and waits for its job."""
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_SECONDS)
        with theirs:
            program = (
                f"import sys; sys.path[:] = {path!r}; "
                f"from shardline.consumer.link import main; "
                f"main({theirs.fileno()}, {os.getpid()})"
            )
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", program],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=_ARROW_POOL | os.environ,
            )
        self._channel = Channel(ours)

    def take(self, job: Job) -> None:
        """Send the job, once, before any message."""
        self._send(job)

    def send(self, message: ToRunner) -> None:
        """Send a message; one to a dead runner is dropped, for `receive` reports the death."""
        self._send(message)

    def receive(self, timeout_seconds: float) -> FromRunner | None:
        """Return the next message, or None. Raises EOFError when the process is gone."""
        message: FromRunner | None = self._channel.receive(timeout_seconds)
        return message

    def _send(self, message: Any) -> None:
        try:
            self._channel.send(message)
        except TimeoutError:
            self._process.kill()  # a part of the message may have been sent
        except OSError:
            pass

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def wait(self, timeout_seconds: float) -> None:
        """Wait for the process to end by itself, then end it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_seconds)
        self.kill()


class RunnerProcesses:
    """Starts the runners of one worker, the first of them ahead of its job.

    A runner needs about a second to import what it needs. Make this object before anything else,
    in a thread that lives as long as the worker: Linux ends the process with that thread.
    """

    def __init__(self, path: list[str] | None = None) -> None:
        self._path = path or sys.path
        self._ahead: RunnerProcess | None = RunnerProcess(self._path)

    def make(self, job: Job) -> RunnerProcess:
        """Return a runner that has its job."""
        runner, self._ahead = self._ahead or RunnerProcess(self._path), None
        runner.take(job)
        return runner

    def close(self) -> None:
        """End the process that was started ahead, if it got no job."""
        if self._ahead is not None:
            self._ahead.kill()


def main(descriptor: int, parent: int) -> None:
    """Run a runner: the whole life of the child process."""
    _die_with(parent)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the keeper decides when to stop
    import shardline.services.wire.kinesis  # noqa: F401 - needed at the first page, imported ahead
    from shardline.consumer.logs import log_to_stderr
    from shardline.consumer.runner import PULSE_SECONDS, Runner

    log_to_stderr()
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        job: Job = channel.receive()
    except EOFError:
        os._exit(0)  # there is no job
    runner = Runner(job, channel.send)

    def listen() -> None:
        try:
            while not runner.finished.is_set():
                message = channel.receive()
                if message is not None:
                    runner.handle(message)
        except (EOFError, OSError):
            os._exit(1)  # the keeper is gone, and its leases with it: work no more

    Thread(target=listen, name="keeper's messages", daemon=True).start()
    try:
        while not runner.finished.wait(PULSE_SECONDS):
            runner.watch()
    except OSError:
        os._exit(1)
    os._exit(0)


def _die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies; elsewhere the socket's end does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
