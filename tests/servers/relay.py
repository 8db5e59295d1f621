"""A relay in front of a server, whose connections can meet a fate for a while."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

FATES: Final = {
    "drop": "connections are closed before an answer",
    "silent": "what is sent waits, as in front of a server that is frozen",
    "trickle": "answers come byte by byte",
    "cut body": "answers end in their middle",
    "reset": "connections are reset before a request is passed on",
    "one-way": "requests are carried out, and nobody hears of it",
}
_TRICKLE_SECONDS: Final = 0.1
_CHUNK_BYTES: Final = 65536


@dataclass
class Relay:
    """A port of this machine that leads to another one."""

    port: int
    fate: str = ""
    """One of `FATES`; empty while all is well."""
    well: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def struck(self, fate: str) -> Iterator[None]:
        """Let every connection meet a fate for a while."""
        self.fate = fate
        self.well.clear()
        try:
            yield
        finally:
            self.fate = ""
            self.well.set()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Pass nothing on for a while."""
        with self.struck("silent"):
            yield


@contextmanager
def relay_to(port: int) -> Iterator[Relay]:
    """Run a relay to a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay(listener.getsockname()[1])
        relay.well.set()
        threading.Thread(target=_serve, args=(listener, port, relay), daemon=True).start()
        yield relay
        relay.well.set()


def _serve(listener: socket.socket, port: int, relay: Relay) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with suppress(OSError):
            pair = _Pair(client, socket.create_connection(("127.0.0.1", port)), relay)
            for work in (pair.pass_requests, pair.pass_answers):
                threading.Thread(target=work, daemon=True).start()


class _Pair:
    """The two connections of one client."""

    def __init__(self, client: socket.socket, server: socket.socket, relay: Relay) -> None:
        self._client = client
        self._server = server
        self._relay = relay
        self._closing = threading.Lock()

    def pass_requests(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(_CHUNK_BYTES):
                match self._relay.fate:
                    case "drop":
                        break
                    case "reset":
                        self._close(reset=True)
                    case "silent":
                        self._relay.well.wait()
                self._server.sendall(data)
        self._close()

    def pass_answers(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(_CHUNK_BYTES):
                match self._relay.fate:
                    case "drop":
                        break
                    case "silent":
                        self._relay.well.wait()
                    case "trickle":
                        data = self._trickle(data)
                    case "cut body":
                        begin = data.find(b"\r\n\r\n") + 4 if data.startswith(b"HTTP") else 0
                        self._client.sendall(data[: (begin + len(data)) // 2])
                        break
                    case "one-way":
                        while self._server.recv(_CHUNK_BYTES):
                            pass
                        break
                self._client.sendall(data)
        self._close()

    def _trickle(self, data: bytes) -> bytes:
        """Send a byte now and then; return what is left when all is well."""
        while data and not self._relay.well.wait(_TRICKLE_SECONDS):
            self._client.sendall(data[:1])
            data = data[1:]
        return data

    def _close(self, *, reset: bool = False) -> None:
        if not self._closing.acquire(blocking=False):
            return
        if reset:  # closed with something unsent or unread, a connection is reset
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for end in (self._server, self._client):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            end.close()
