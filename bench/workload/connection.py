"""An HTTP connection to the embedded service that costs a writer almost nothing."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


class Connection:
    """Sends prepared bodies, one at a time, and returns the bodies of the answers."""

    def __init__(self, endpoint_url: str) -> None:
        address = urlsplit(endpoint_url)
        assert address.hostname is not None
        assert address.port is not None
        self._socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, operation: str, body: bytes) -> bytes:
        """Return the answer to a call of Kinesis, whatever its status is."""
        return self._send(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.1\r\n"
            b"Authorization: AWS4 Credential=a, SignedHeaders=b, Signature=c\r\nX-Amz-Date: d\r\n"
            b"X-Amz-Target: Kinesis_20131202.%b\r\nContent-Length: %d\r\n\r\n"
            % (operation.encode(), len(body)),
            body,
        )

    def control(self, path: str, body: bytes) -> bytes:
        """Return the answer to a call of the embedded service's control API."""
        return self._send(
            b"POST /_shardline/%b HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (path.encode(), len(body)),
            body,
        )

    def close(self) -> None:
        self._socket.close()

    def _send(self, head: bytes, body: bytes) -> bytes:
        self._socket.sendall(head, socket.MSG_MORE)
        self._socket.sendall(body)
        came = b""
        while b"\r\n\r\n" not in came:
            came += self._received()
        head, _, answer = came.partition(b"\r\n\r\n")
        lengths = [x for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")]
        missing = int(lengths[0].split(b":")[1]) - len(answer)
        parts = [answer]
        while missing > 0:
            parts.append(self._received())
            missing -= len(parts[-1])
        return b"".join(parts)

    def _received(self) -> bytes:
        received = self._socket.recv(1 << 18)
        if not received:
            raise ConnectionError("the service closed the connection")
        return received
