"""Lets Spark's Python workers end without a word when Spark has no more use for them.

Spark closes the socket of a worker that was idle for a minute, and of every worker at the end. The
worker takes that for an error and reports it to the closed socket, which answers with a broken pipe
if it is a Unix socket: a stack trace on the terminal for something that is in order. Spark has a
setting for another daemon, but does not heed it for the workers that plan.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

_NOBODY_LISTENS: Final = 1
"""As with Spark's own: a worker that cannot report does not go on."""


def end_quietly() -> None:
    """Have this process end quietly, if it is a worker that Spark's daemon has forked."""
    daemon = sys.modules["__main__"]
    if getattr(daemon.__spec__, "name", None) != "pyspark.daemon":
        return
    spark_worker = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(spark_worker(sock, authenticated))
        except BrokenPipeError:
            return _NOBODY_LISTENS

    daemon.worker = worker  # type: ignore[attr-defined] # looked up for each task
