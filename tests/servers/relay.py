"""A relay in front of a server that can go silent: connected, and without an answer."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Relay:
    """A port of this machine that leads to another one."""

    port: int
    passing: threading.Event = field(default_factory=threading.Event)
    """While it is not set, what was sent waits, as in front of a server that is frozen."""

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Pass nothing on for a while."""
        self.passing.clear()
        try:
            yield
        finally:
            self.passing.set()


@contextmanager
def relay_to(port: int) -> Iterator[Relay]:
    """Run a relay to a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay(listener.getsockname()[1])
        relay.passing.set()
        threading.Thread(target=_serve, args=(listener, port, relay), daemon=True).start()
        yield relay
        relay.passing.set()


def _serve(listener: socket.socket, port: int, relay: Relay) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with suppress(OSError):
            server = socket.create_connection(("127.0.0.1", port))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(*pair, relay), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, relay: Relay) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            relay.passing.wait()
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
