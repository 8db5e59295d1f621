"""A deadline for each whole answer: botocore's read time-out is one for each piece of it.

A server that sends a byte now and then would block a caller without end. Here the time-out of a
socket shrinks while an answer is read, so that headers and body together take no longer than the
client's read time-out, nor than the time that the caller has left (`time_left`). Where not one byte
comes for `SILENCE_SECONDS`, nothing more is waited for: an answer that was lost never comes.

What is not covered is the resolution of a host name, which has time-outs of its own.
"""

from __future__ import annotations

import http.client
import io
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

SILENCE_SECONDS = 10.0
_NEVER: Final = float("inf")
_PRECISION_SECONDS: Final = 0.25
"""A socket's time-out is set again only when it is off by more than this."""

_ends_at: ContextVar[float] = ContextVar("ends_at", default=_NEVER)


@contextmanager
def time_left(seconds: float) -> Iterator[None]:
    """Limit every call in this block that goes through a client of ours, to this long in all."""
    token = _ends_at.set(min(_ends_at.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at.reset(token)


def set_deadlines(client: Any) -> None:
    """Make a botocore client keep deadlines for whole answers."""
    set_connections(client, _TimedResponse)


def set_connections(client: Any, response: type[http.client.HTTPResponse]) -> None:
    """Make a botocore client read its answers with this class, over connections with deadlines."""
    # The dictionary is the one that the session's pools, those of proxies included, look into.
    session = client._endpoint.http_session  # noqa: SLF001 - botocore has no other way in
    session._pool_classes_by_scheme.update(_pools(response))  # noqa: SLF001


class TimedReader(io.RawIOBase):
    """Reads a socket, and raises `TimeoutError` once the time for the whole answer is over."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb", buffering=0)  # keeps the socket open until it is closed
        timeout = sock.gettimeout()
        self._timeout = _NEVER if timeout is None else timeout
        self._ends_at = min(_ends_at.get(), time.monotonic() + self._timeout)

    def readable(self) -> bool:
        """Return true: it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come, or wait for it as long as time is left."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer was not complete in time")
        wait = min(left, SILENCE_SECONDS)
        if wait < self._timeout - _PRECISION_SECONDS:
            self._sock.settimeout(wait)
            self._timeout = wait
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        """Close the file, which keeps the socket open."""
        if not self.closed:
            super().close()
            self._file.close()


class _TimedSocket:
    """What `http.client.HTTPResponse` needs of a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(TimedReader(self._sock))


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(_TimedSocket(sock), *args, **options)  # type: ignore[arg-type]


class _Timed:
    """Mixed into a connection: neither connecting nor sending outlasts the time left."""

    timeout: float | None

    def connect(self) -> None:
        self._shorten_timeout()
        super().connect()  # type: ignore[misc]

    def request(self, *args: Any, **options: Any) -> None:
        self._shorten_timeout()
        super().request(*args, **options)  # type: ignore[misc]

    def _shorten_timeout(self) -> None:
        left = _ends_at.get() - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time was left for the call")
        if self.timeout is None or left < self.timeout:
            self.timeout = None if left == _NEVER else left


def _pools(response: type[http.client.HTTPResponse]) -> dict[str, type]:
    """Return a pool class for each scheme, whose connections read answers with this class."""

    class Connection(_Timed, AWSHTTPConnection):  # type: ignore[misc]
        response_class = response

    class SecureConnection(_Timed, AWSHTTPSConnection):  # type: ignore[misc]
        response_class = response

    class Pool(AWSHTTPConnectionPool):  # type: ignore[misc]
        ConnectionCls = Connection

    class SecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]
        ConnectionCls = SecureConnection

    return {"http": Pool, "https": SecurePool}
