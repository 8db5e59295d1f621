"""Reads and writes CBOR as the AWS SDKs use it (`application/x-amz-cbor-1.1`).

Times are tag 1 around *milliseconds*, not the seconds of the standard. They are read as JSON has
them, in seconds, and written from `Milliseconds`.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec

CONTENT_TYPE: Final = "application/x-amz-cbor-1.1"

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_TIME_TAG: Final = 1
_WITHOUT_END: Final = 31
_CONSTANTS: Final = {20: False, 21: True, 22: None, 23: None}
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}


class Milliseconds(int):
    """A time to be written: milliseconds since 1970."""


def is_cbor_map(body: bytes) -> bool:
    """Return true if a body is a CBOR map; JSON text never begins with such a byte."""
    return body[:1] >= b"\xa0"


# --- reading ----------------------------------------------------------------------------------


def decode(body: bytes) -> Any:
    """Return the one item of a body. Raises `msgspec.DecodeError` for anything else."""
    try:
        value, place = decode_at(body, 0)
    except RecursionError:
        raise msgspec.DecodeError("CBOR is nested too deeply") from None
    if place != len(body):
        raise msgspec.DecodeError(f"CBOR is followed by {len(body) - place} bytes more")
    return value


def decode_at(body: bytes, place: int) -> tuple[Any, int]:
    """Return the item at a place, and the place after it."""
    kind, info, number, place = read_head(body, place)
    if kind in (_TEXT, _BYTES):
        if info == _WITHOUT_END:
            value, place = _joined(body, place, kind)
        else:
            value, place = body[place : place + number], place + number
            if place > len(body):
                raise _cut_short()
        if kind == _BYTES:
            return value, place
        try:
            return value.decode(), place
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(f"CBOR text is not UTF-8: {error}") from None
    if kind == _MAP:
        items, place = _items(body, place, None if info == _WITHOUT_END else 2 * number)
        if len(items) % 2 or not all(isinstance(key, str) for key in items[::2]):
            raise msgspec.DecodeError("a CBOR map must have a text for each name, and a value")
        return dict(zip(items[::2], items[1::2], strict=True)), place
    if kind == _ARRAY:
        return _items(body, place, None if info == _WITHOUT_END else number)
    if kind == _TAG:
        value, place = decode_at(body, place)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if number != _TIME_TAG or not is_number:
            raise msgspec.DecodeError(f"CBOR tag {number} is not expected here")
        return value / 1000, place
    if kind == _SIMPLE:
        if info in _CONSTANTS:
            return _CONSTANTS[info], place
        if info in _FLOATS:
            size = 1 << (info - 24)
            return struct.unpack(_FLOATS[info], number.to_bytes(size, "big"))[0], place
        raise msgspec.DecodeError(f"CBOR has an unexpected simple value at byte {place - 1}")
    return (number if kind == _UNSIGNED else -1 - number), place


def read_head(body: bytes, place: int) -> tuple[int, int, int, int]:
    """Return the head of an item: kind, additional information, number, and the place after it."""
    if place >= len(body):
        raise _cut_short()
    first = body[place]
    kind, info = first >> 5, first & 31
    place += 1
    if info < 24:
        return kind, info, info, place
    if info < 28:
        after = place + (1 << (info - 24))
        if after > len(body):
            raise _cut_short()
        return kind, info, int.from_bytes(body[place:after], "big"), after
    if info == _WITHOUT_END and kind in (_BYTES, _TEXT, _ARRAY, _MAP):
        return kind, info, 0, place
    raise msgspec.DecodeError(f"CBOR has an unexpected byte {first:#x} at {place - 1}")


def _items(body: bytes, place: int, count: int | None) -> tuple[list[Any], int]:
    items: list[Any] = []
    while count is None or len(items) < count:
        if count is None and body[place : place + 1] == b"\xff":
            return items, place + 1
        item, place = decode_at(body, place)
        items.append(item)
    return items, place


def _joined(body: bytes, place: int, kind: int) -> tuple[bytes, int]:
    """Return a text or bytes that come in pieces, as Jackson writes long texts."""
    pieces: list[bytes] = []
    while body[place : place + 1] != b"\xff":
        piece_kind, info, number, place = read_head(body, place)
        if piece_kind != kind or info == _WITHOUT_END:
            raise msgspec.DecodeError(f"CBOR has a piece of another kind before byte {place}")
        pieces.append(body[place : place + number])
        place += number
    return b"".join(pieces), place + 1


def _cut_short() -> msgspec.DecodeError:
    return msgspec.DecodeError("CBOR ends in the middle of an item")


# --- writing ----------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Return a value in CBOR: what JSON can hold, and also bytes and `Milliseconds`."""
    pieces: list[bytes] = []
    _write(value, pieces)
    return b"".join(pieces)


def _write(value: Any, pieces: list[bytes]) -> None:
    match value:
        case bool():
            pieces.append(b"\xf5" if value else b"\xf4")
        case None:
            pieces.append(b"\xf6")
        case Milliseconds():
            pieces += (head(_TAG, _TIME_TAG), b"\x1b", value.to_bytes(8, "big"))
        case int():
            pieces.append(head(_UNSIGNED, value) if value >= 0 else head(_NEGATIVE, -1 - value))
        case float():
            pieces += (b"\xfb", struct.pack(">d", value))
        case bytes():
            pieces += (head(_BYTES, len(value)), value)
        case str():
            text = value.encode()
            pieces += (head(_TEXT, len(text)), text)
        case list() | tuple():
            pieces.append(head(_ARRAY, len(value)))
            for item in value:
                _write(item, pieces)
        case dict():
            pieces.append(head(_MAP, len(value)))
            for name, item in value.items():
                _write(name, pieces)
                _write(item, pieces)
        case _:
            raise TypeError(f"CBOR has no place for a {type(value).__name__}")


def head(kind: int, number: int) -> bytes:
    """Return the head of an item, in the shortest form."""
    if number < 24:
        return bytes([kind << 5 | number])
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << (8 * size):
            return bytes([kind << 5 | info]) + number.to_bytes(size, "big")
    raise OverflowError(f"{number} does not fit into 64 bits")
