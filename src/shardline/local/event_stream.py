"""The encoding `vnd.amazon.eventstream`: messages with headers, a payload and checksums."""

from __future__ import annotations

import struct
import zlib
from typing import Final

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"
_STRING: Final = 7


def event_message(event_type: str, payload: bytes, content_type: str) -> bytes:
    """Return one event as a message."""
    headers = {
        ":event-type": event_type,
        ":content-type": content_type,
        ":message-type": "event",
    }
    return _message(headers, payload)


def exception_message(exception_type: str, payload: bytes, content_type: str) -> bytes:
    """Return an exception as a message; it is the last one of its stream."""
    headers = {
        ":exception-type": exception_type,
        ":content-type": content_type,
        ":message-type": "exception",
    }
    return _message(headers, payload)


def _message(headers: dict[str, str], payload: bytes) -> bytes:
    header_block = b"".join(_header(name, value) for name, value in headers.items())
    # Prelude: both lengths and their checksum; at the end a checksum of all before it.
    total = 12 + len(header_block) + len(payload) + 4
    lengths = struct.pack(">II", total, len(header_block))
    start = lengths + struct.pack(">I", zlib.crc32(lengths)) + header_block
    checksum = zlib.crc32(payload, zlib.crc32(start))
    return b"".join([start, payload, struct.pack(">I", checksum)])


def _header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    return b"".join(
        [
            struct.pack(">B", len(name_bytes)),
            name_bytes,
            struct.pack(">BH", _STRING, len(value_bytes)),
            value_bytes,
        ]
    )
