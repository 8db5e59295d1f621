"""Keeps Spark's Python workers from printing a stack trace when Spark no longer needs them.

Spark closes the socket of a worker that was idle for a minute, and of every worker at the end. The
worker takes that for an error and reports it to the closed socket, which raises BrokenPipeError if
it is a Unix socket: a stack trace on the terminal although nothing is wrong. Spark has a setting
for another daemon, but does not use it for the workers that plan.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

_CANNOT_REPORT: Final = 1
"""The exit code that Spark itself uses: a worker that cannot report its error ends."""


@lru_cache(maxsize=1)
def end_quietly() -> None:
    """Replace the entry of this process, if it is a worker that Spark's daemon has forked.

    Called in the worker, by the code that Spark runs there. No-op in any other process.
    """
    daemon = sys.modules["__main__"]
    if getattr(daemon.__spec__, "name", None) != "pyspark.daemon":
        return
    spark_worker = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(spark_worker(sock, authenticated))
        except BrokenPipeError:
            return _CANNOT_REPORT

    daemon.worker = worker  # type: ignore[attr-defined] # looked up for each task
