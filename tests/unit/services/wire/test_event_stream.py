"""Bytes of an event stream, in pieces of any size, garbled as well as whole."""

from __future__ import annotations

import struct
import zlib

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from shardline.local.event_stream import event_message, exception_message
from shardline.services.wire.event_stream import ChunkedBody, MessageBuffer, encode_message
from shardline.services.wire.handler import IncompleteAnswer

JSON = "application/x-amz-json-1.1"
EVENTS = [
    event_message("initial-response", b"{}", JSON),
    event_message("SubscribeToShardEvent", b'{"Records":[]}' * 300, JSON),
    exception_message("ResourceInUseException", b'{"message":"taken"}', JSON),
]


def pieces_of(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [*pieces, data[at:]]


@given(st.lists(st.integers(0, 400), max_size=40))
def test_messages_come_out_as_botocore_reads_them_whatever_the_pieces(sizes: list[int]) -> None:
    buffer, oracle = MessageBuffer(), EventStreamBuffer()
    oracle.add_data(b"".join(EVENTS))
    found = []
    for piece in pieces_of(b"".join(EVENTS), sizes):
        buffer.add(piece)
        while (message := buffer.take()) is not None:
            found.append(message)
    assert found == [(message.headers, message.payload) for message in oracle]
    assert len(buffer) == 0


@given(st.lists(st.integers(0, 90), max_size=40), st.lists(st.binary(min_size=1), max_size=9))
def test_chunks_give_the_body_whatever_the_pieces(sizes: list[int], chunks: list[bytes]) -> None:
    sent = b"".join(b"%x;why=not\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    body = ChunkedBody()
    got = [body.decode(piece) for piece in pieces_of(sent, sizes)]
    assert b"".join(got) == b"".join(chunks)
    assert not body.ended
    assert body.decode(b"0\r\n\r\n") == b""
    assert body.ended


@pytest.mark.parametrize("place", [2, 9, 20, len(EVENTS[1]) - 1])
def test_a_garbled_byte_is_an_error(place: int) -> None:
    garbled = bytearray(EVENTS[1])
    garbled[place] ^= 1
    buffer = MessageBuffer()
    buffer.add(bytes(garbled))
    with pytest.raises(IncompleteAnswer, match="garbled"):
        buffer.take()


@pytest.mark.parametrize("line", [b"zz\r\n", b"1" * 100, b"-5\r\n"])
def test_a_malformed_chunk_is_an_error(line: bytes) -> None:
    with pytest.raises(IncompleteAnswer, match="malformed"):
        ChunkedBody().decode(line)


@pytest.mark.parametrize("block", [b"\x09name", b"\x01n\x07\x00", b"\x02\xff\xff\x00"])
def test_malformed_headers_are_an_error(block: bytes) -> None:
    lengths = struct.pack(">II", 16 + len(block), len(block))
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + block
    buffer = MessageBuffer()
    buffer.add(message + struct.pack(">I", zlib.crc32(message)))
    with pytest.raises(IncompleteAnswer, match="headers"):
        buffer.take()


def test_a_message_of_ours_is_one_for_botocore() -> None:
    oracle = EventStreamBuffer()
    oracle.add_data(encode_message({":event-type": "initial-response"}))
    [message] = oracle
    assert (message.headers, message.payload) == ({":event-type": "initial-response"}, b"{}")
