from __future__ import annotations

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer

from shardline.local.event_stream import event_message, exception_message


def test_botocore_reads_what_is_encoded() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(event_message("SubscribeToShardEvent", b'{"a": 1}', "application/json"))
    buffer.add_data(exception_message("ResourceInUseException", b"{}", "application/json"))
    event, exception = buffer
    assert event.payload == b'{"a": 1}'
    assert event.headers == {
        ":event-type": "SubscribeToShardEvent",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    assert exception.headers[":exception-type"] == "ResourceInUseException"
    assert exception.headers[":message-type"] == "exception"


def test_a_changed_byte_is_noticed() -> None:
    message = bytearray(event_message("E", b"payload", "text/plain"))
    message[-6] ^= 1
    buffer = EventStreamBuffer()
    buffer.add_data(bytes(message))
    with pytest.raises(ChecksumMismatch):
        next(buffer)
