"""SIGINT, SIGTERM and SIGHUP of `shardline run`: before the workers have started, once, twice."""

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from shardline.cli.program import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.cli.run.report import Report

_cleanups: Final[list["Callable[[], None]"]] = []
"""What `leave_at_once` calls."""


class Signals:
    """What signals have asked for.

    Before the workers have started there is nothing to hand back: the process ends at once, and
    with it whatever it has started. Spark may need a while to start, and a deployment does not
    wait for that. As the first process of a container it would ignore a signal without a handler.
    """

    def __init__(self, report: "Report") -> None:
        self.stopping: Final = threading.Event()
        """Set by the first signal."""
        self.leaving: Final = threading.Event()
        """Set by the second signal."""
        self._report = report
        self._starting = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        # `nohup` has it ignored, and that stays. Spark's Java process is in the same terminal:
        # what is ignored while it starts it ignores for good, and lives to hand back the leases.
        self._hears_hang_up = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
        self._had_terminal = _has_terminal()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def workers_started(self) -> None:
        """From now on a signal asks the workers to stop; so does a terminal that was closed."""
        self._starting = False
        if self._hears_hang_up:
            signal.signal(signal.SIGHUP, self._on_signal)
            if self._had_terminal and not _has_terminal():  # it was closed while they started
                self._on_signal(signal.SIGHUP, None)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self._starting:
            with suppress(RuntimeError):  # this thread was just printing
                self._report.stopped_at_start()
            # What Spark has begun to write stays for the next start: Java is still at work on it.
            os._exit(ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.OK)
        if self.stopping.is_set():
            self.leaving.set()
        else:
            self._report.stopping()
            self.stopping.set()


def _has_terminal() -> bool:
    """Return true if this process has a terminal that can hang up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def before_leaving(clean_up: "Callable[[], None]") -> None:
    """Register a function to call at the end of the process, also by `leave_at_once`."""
    atexit.register(clean_up)
    _cleanups.append(clean_up)


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads, or for Spark's Java process, which follows."""
    for clean_up in _cleanups:
        with suppress(Exception):
            clean_up()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # of a terminal that was closed
            stream.flush()
    os._exit(code)
