"""A client whose answers go on: it hands out the connection instead of the body.

botocore finds credentials and endpoints, signs, connects and reads the headers. From there on the
socket is read here, so that a reader can ask what has come without waiting for more.
"""

from __future__ import annotations

import http.client
import io
from typing import TYPE_CHECKING, Any, Final

from urllib3.util.wait import wait_for_read

from shardline.services.access import make_client
from shardline.services.clock import boot_seconds
from shardline.services.deadlines import TimedReader, set_connections
from shardline.services.exact_times import send_exact_times
from shardline.services.wire.event_stream import ChunkedBody, encode_message
from shardline.services.wire.handler import IncompleteAnswer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from shardline.services.access import Access

_BODY: Final = "ShardlineBody"
_OK: Final = 200
_MOST_BYTES: Final = 256 * 1024
_INITIAL: Final = encode_message({":message-type": "event", ":event-type": "initial-response"})


def make_push_client(access: Access) -> Any:
    """Return a Kinesis client for SubscribeToShard alone; see `body_in`."""
    client = make_client("kinesis", access, whole_answers=False)
    set_connections(client, _PushedResponse)
    send_exact_times(client)

    def take_body(
        response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
    ) -> None:
        if response_dict["status_code"] == _OK:
            customized_response_dict[_BODY] = PushedBody(response_dict["body"])
            response_dict["body"] = _InitialResponse()  # for botocore to parse

    client.meta.events.register("before-parse.kinesis.SubscribeToShard", take_body)
    return client


def body_in(response: dict[str, Any]) -> PushedBody:
    """Return the body of an answer that goes on."""
    body: PushedBody = response[_BODY]
    return body


class PushedBody:
    """The bytes of a body as they come."""

    def __init__(self, raw: Any, clock: Callable[[], float] = boot_seconds) -> None:
        """Take over the connection of a urllib3 response whose headers were read."""
        answer: _PushedResponse = raw._original_response  # noqa: SLF001 - nowhere else
        self._raw = raw
        self._sock: Any = answer.pushing_socket
        self._chunks = ChunkedBody() if answer.chunked else None
        self._clock = clock
        self.emptied_at = clock()
        """When nothing was waiting to be read: what is read next was sent after this."""

    def read(self, wait_seconds: float) -> bytes | None:
        """Return what has come; None if nothing came within this time, b"" at the end.

        Raises `OSError` or `IncompleteAnswer` if the connection was cut.
        """
        if self._chunks is not None and self._chunks.ended:
            return b""
        ends_at = self._clock() + wait_seconds
        while True:
            left = max(0.0, ends_at - self._clock())
            if not self._is_readable(0.0):
                self.emptied_at = self._clock()
                if not self._is_readable(left):
                    return None
            self._sock.settimeout(max(left, 1.0))
            try:
                data: bytes = self._sock.recv(_MOST_BYTES)
            except TimeoutError:
                return None  # a part of a TLS record had come, and no more
            if self._chunks is None:
                return data
            if not data:
                raise IncompleteAnswer(error="the connection was cut")
            data = self._chunks.decode(data)
            if data or self._chunks.ended:
                return data

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()

    def _is_readable(self, wait_seconds: float) -> bool:
        pending = getattr(self._sock, "pending", None)  # what TLS has decrypted already
        if pending is not None and pending():
            return True
        return bool(wait_for_read(self._sock, wait_seconds))


class _PushedResponse(http.client.HTTPResponse):
    """Reads the headers, and not one byte of the body."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        self.pushing_socket: Final = sock
        super().__init__(_HeaderSocket(sock), *args, **options)  # type: ignore[arg-type]


class _HeaderSocket:
    """What `http.client.HTTPResponse` needs of a socket, without reading ahead."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(TimedReader(self._sock), 1)


class _InitialResponse:
    """The first message of every subscription, which botocore waits for."""

    def stream(self) -> list[bytes]:
        return [_INITIAL]

    def close(self) -> None:
        """No-op: the connection is closed elsewhere."""
