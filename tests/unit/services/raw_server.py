"""A server of raw sockets: it answers byte by byte as a test says, wrongly as well as rightly."""

from __future__ import annotations

import json
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = Callable[[socket.socket], None]

PIECE_SECONDS = 0.05


class RawServer:
    """Answers each request with the next of its answers; the last one is given again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.operations: list[str] = []
        """What was asked for, in order."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread in accept() is woken by this on Linux, and by nothing else.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            self.operations.append(_operation_asked(client))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            answer(client)


def _operation_asked(client: socket.socket) -> str:
    received = b""
    while b"\r\n\r\n" not in received:
        received += client.recv(65536) or b"\r\n\r\n"
    head, _, body = received.partition(b"\r\n\r\n")
    lines = [line.split(b": ", 1) for line in head.split(b"\r\n")[1:]]
    headers = {name.lower(): value for name, value in lines}
    while len(body) < int(headers[b"content-length"]):
        body += client.recv(65536)
    return headers[b"x-amz-target"].decode().split(".")[-1]


def head_of(size: int, status: int = 200, **headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status} OK",
        f"Content-Length: {size}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def whole(body: bytes | dict[str, Any], status: int = 200, **headers: str) -> Answer:
    """Answer as a server should."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda client: client.sendall(head_of(len(text), status, **headers) + text)


def cut(body: bytes, share: float, *, reset: bool = False) -> Answer:
    """Promise a whole body, send a share of it, and end the connection."""

    def answer(client: socket.socket) -> None:
        client.sendall(head_of(len(body)) + body[: int(len(body) * share)])
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return answer


def trickle(text: bytes, at_once: bytes = b"") -> Answer:
    """Send everything in the end, but one byte at a time, with a pause after each."""

    def answer(client: socket.socket) -> None:
        client.sendall(at_once)
        client.settimeout(PIECE_SECONDS)
        for n in range(len(text)):
            client.sendall(text[n : n + 1])
            with suppress(TimeoutError):
                if client.recv(1) == b"":
                    return  # the client has given up

    return answer


def silence(client: socket.socket) -> None:
    """Never answer: wait until the client has given up."""
    client.settimeout(60)
    client.recv(1)
