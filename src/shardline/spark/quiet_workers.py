"""Keeps Spark's Python workers from printing a stack trace when Spark no longer needs them.

Spark closes the socket of a worker that was idle for a minute, and of every worker at the end. The
worker takes that for an error and reports it to the closed socket, which raises BrokenPipeError if
it is a Unix socket: a stack trace on the terminal although nothing is wrong.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

_SPARKS_DAEMON: Final = "pyspark.daemon"
_OUR_DAEMON: Final = "shardline.spark.worker_daemon"
_CANNOT_REPORT: Final = 1
"""The exit code that Spark itself uses: a worker that cannot report its error ends."""


@lru_cache(maxsize=1)
def end_quietly() -> None:
    """Replace the entry of the workers of this process, if it is Spark's daemon or forked from it.

    Called by our own daemon (`worker_daemon.py`), and in workers of Spark's, by the code that runs
    there. No-op in any other process.
    """
    daemon = sys.modules["__main__"]
    if getattr(daemon.__spec__, "name", None) == _OUR_DAEMON:
        daemon = sys.modules[_SPARKS_DAEMON]
    elif getattr(daemon.__spec__, "name", None) != _SPARKS_DAEMON:
        return
    spark_worker = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(spark_worker(sock, authenticated))
        except BrokenPipeError:
            return _CANNOT_REPORT

    daemon.worker = worker  # type: ignore[attr-defined] # looked up for each task
