"""The bytes of an answer that goes on: HTTP chunks, and in them the messages of an event stream.

Both take bytes as they arrive, in pieces of any size, and give what is whole. `botocore` has a
parser of messages as well, but hands out its records one by one as Python objects.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final, NamedTuple

from shardline.services.wire.handler import IncompleteAnswer

_PRELUDE: Final = struct.Struct(">III")
_CHECKSUM: Final = struct.Struct(">I")
_LARGEST_MESSAGE_BYTES: Final = 24 * 1024 * 1024
_LONGEST_SIZE_LINE: Final = 64
_HEXADECIMAL: Final = re.compile(rb"[0-9a-fA-F]+")
_TEXT: Final = 7
_FIXED_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The sizes of header values that are neither bytes (6) nor text (7), by their type."""


class Message(NamedTuple):
    """One message: its headers of type text, and its payload."""

    headers: dict[str, str]
    payload: bytes


class ChunkedBody:
    """Takes the chunk sizes out of a body that is sent with `Transfer-Encoding: chunked`."""

    def __init__(self) -> None:
        self.ended = False
        """True after the last chunk. A connection that closes before it was cut."""
        self._head = b""
        self._left = 0

    def decode(self, data: bytes) -> bytes:
        """Return what the next bytes hold of the body."""
        parts = []
        while data and not self.ended:
            if self._left:
                part = data[: self._left]
                parts.append(part)
                self._left -= len(part)
                data = data[len(part) :]
                continue
            line, newline, rest = data.partition(b"\n")
            self._head += line
            if len(self._head) > _LONGEST_SIZE_LINE:
                raise IncompleteAnswer(error="the size of a chunk is malformed")
            if not newline:
                break
            data, size, self._head = rest, self._head.strip(), b""
            if size:  # an empty line ends the chunk before
                self._left = _chunk_size(size)
                self.ended = self._left == 0
        return parts[0] if len(parts) == 1 else b"".join(parts)


class MessageBuffer:
    """Cuts the bytes of an event stream into messages, and checks their checksums."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        """Return how many bytes of a message that is not whole yet are held."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Append bytes as they came."""
        self._data += data

    def take(self) -> Message | None:
        """Remove and return the next message, or None if it is not whole yet.

        Raises `IncompleteAnswer` for bytes that are no message.
        """
        data = self._data
        if len(data) < _PRELUDE.size:
            return None
        total, header_size, checksum = _PRELUDE.unpack_from(data)
        if zlib.crc32(data[:8]) != checksum:
            raise IncompleteAnswer(error="the beginning of an event is garbled")
        header_end = _PRELUDE.size + header_size
        payload_end = total - _CHECKSUM.size
        if total > _LARGEST_MESSAGE_BYTES or header_end > payload_end:
            raise IncompleteAnswer(error=f"an event of {total} bytes cannot be")
        if len(data) < total:
            return None
        with memoryview(data) as view:
            (checksum,) = _CHECKSUM.unpack_from(data, payload_end)
            if zlib.crc32(view[:payload_end]) != checksum:
                raise IncompleteAnswer(error="an event is garbled")
            headers = _headers(bytes(view[_PRELUDE.size : header_end]))
            payload = bytes(view[header_end:payload_end])
        del data[:total]
        return Message(headers, payload)


def encode_message(headers: dict[str, str], payload: bytes = b"{}") -> bytes:
    """Return one message as bytes."""
    texts = [(name.encode(), value.encode()) for name, value in headers.items()]
    block = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name, _TEXT, len(value)) + value
        for name, value in texts
    )
    lengths = struct.pack(">II", _PRELUDE.size + len(block) + len(payload) + 4, len(block))
    start = lengths + _CHECKSUM.pack(zlib.crc32(lengths)) + block
    checksum = zlib.crc32(payload, zlib.crc32(start))
    return b"".join([start, payload, _CHECKSUM.pack(checksum)])


def _chunk_size(line: bytes) -> int:
    size = line.partition(b";")[0].strip()
    if not _HEXADECIMAL.fullmatch(size):
        raise IncompleteAnswer(error="the size of a chunk is malformed")
    return int(size, 16)


def _headers(block: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(block):
            name_end = at + 1 + block[at]
            name, kind = block[at + 1 : name_end].decode(), block[name_end]
            at = name_end + 1
            size = _FIXED_SIZES.get(kind)
            if size is None:
                (size,) = struct.unpack_from(">H", block, at)
                at += 2
            if kind == _TEXT:
                headers[name] = block[at : at + size].decode()
            at += size
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise IncompleteAnswer(error=f"the headers of an event are malformed ({error})") from error
    return headers
