"""A socket that listens on a port, or one line that says why not."""

from __future__ import annotations

import socket

from shardline.errors import ConfigurationError


def listen(host: str, port: int, remedy: str, backlog: int | None = None) -> socket.socket:
    """Return a socket that listens; `remedy` ends the message of the `ConfigurationError`."""
    try:
        return socket.create_server((host, port), backlog=backlog)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigurationError(
            f"port {port} of {host} is not available ({reason}): {remedy}"
        ) from None
