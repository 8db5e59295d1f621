"""The messages of `vnd.amazon.eventstream` that the service sends: events and exceptions."""

from __future__ import annotations

from typing import Final

from shardline.services.wire.event_stream import encode_message

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"


def event_message(event_type: str, payload: bytes, content_type: str) -> bytes:
    """Return one event as a message."""
    return _message("event", event_type, payload, content_type)


def exception_message(exception_type: str, payload: bytes, content_type: str) -> bytes:
    """Return an exception as a message; it is the last one of its stream."""
    return _message("exception", exception_type, payload, content_type)


def _message(kind: str, name: str, payload: bytes, content_type: str) -> bytes:
    headers = {f":{kind}-type": name, ":content-type": content_type, ":message-type": kind}
    return encode_message(headers, payload)
