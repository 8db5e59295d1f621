"""A relay between a client and a server that delays, cuts, goes silent, or works one way only."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

TROUBLES: Final = ("slow", "cut", "silent", "requests only", "answers only")
_CHUNK_BYTES: Final = 16_384


class Relay:
    """Passes connections on to a server. Its mood changes every moment, by a seed."""

    def __init__(self, port: int, seed: int, well_seconds: float = 0.5) -> None:
        self._server = ("127.0.0.1", port)
        self._random = Random(seed)
        self._well_seconds = well_seconds
        self._mood = "well"
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        for work in (self._accept, self._change_moods):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._listener.close()
        self._cut()

    def _change_moods(self) -> None:
        """Be in trouble now and then, for a moment: what is silent then stays so."""
        while not self._ended.wait(self._well_seconds * 2 * self._random.random()):
            self._mood = self._random.choice(TROUBLES)
            if self._mood == "cut":
                self._cut()
            self._ended.wait(0.2 * self._random.random())
            self._mood = "well"

    def _cut(self) -> None:
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                continue
            self._open += [client, server]
            for source, target, blocked in (
                (client, server, "answers only"),
                (server, client, "requests only"),
            ):
                arguments = (source, target, blocked)
                threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, blocked: str) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if self._mood in ("silent", blocked):
                    self._go_silent(source)
                    break
                if self._mood == "slow":
                    time.sleep(0.05 * self._random.random())
                    half = len(data) // 2
                    target.sendall(data[:half])
                    data = data[half:]
                target.sendall(data)
        for end in (source, target):  # a server must not wait for a client that has gone
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _go_silent(self, source: socket.socket) -> None:
        """Take what comes and pass nothing on: what was lost never arrives later in part."""
        while source.recv(_CHUNK_BYTES):
            pass
