"""Reads the protobuf message of an aggregated record of the Kinesis Producer Library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Parts: TypeAlias = tuple[
        npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]
    ]
    """Key index, hash index, begin and end of the data, of each user record."""

_KEY_TABLE, _HASH_TABLE, _RECORD = 0x0A, 0x12, 0x1A
"""Tags of the message: fields 1, 2 and 3, all with a length."""
_KEY_INDEX, _HASH_INDEX, _DATA = 0x08, 0x10, 0x1A
"""Tags of a user record: fields 1 and 2 are numbers, 3 has a length."""
_NUMBER, _EIGHT_BYTES, _WITH_LENGTH, _GROUP, _GROUP_END, _FOUR_BYTES = range(6)
"""The types of fields, in the lowest bits of a tag."""
_DEEPEST_GROUP: Final = 100
"""Groups are an old form of messages in messages, which protobuf still reads, up to here."""
_LONGEST_KEY: Final = 256
"""Kinesis takes no longer partition keys."""
_HASH_KEY_DIGITS: Final = 39
_FIRST_TAG: Final = 1 << 3
_LAST_TAG: Final = (1 << 32) - 1
_SHORT_BYTES: Final = 5
"""Protobuf takes no tag and no length of more bytes, though the rest may be idle."""
_VARINT_BYTES: Final = 10
_UINT64: Final = (1 << 64) - 1
_LONGEST_INT64_VARINT: Final = 9
_FEW: Final = 100
"""Up to this many user records are read one by one; more are read all at once."""


class UserRecords(NamedTuple):
    """The user records of a message. The arrays have an element for each."""

    keys: list[str]
    """The table of partition keys."""
    hash_keys: list[str]
    """The table of explicit hash keys, in decimal digits."""
    key_index: npt.NDArray[np.int64]
    hash_index: npt.NDArray[np.int64]
    """-1 for a user record without an explicit hash key."""
    begins: npt.NDArray[np.int64]
    """Where the data begins in the message."""
    ends: npt.NDArray[np.int64]


def read_message(message: bytes) -> UserRecords:
    """Read a whole message. Raises `ValueError` or `IndexError` for anything else."""
    tables: dict[int, list[bytes]] = {_KEY_TABLE: [], _HASH_TABLE: []}
    begins: list[int] = []
    ends: list[int] = []
    at, size = 0, len(message)
    while at < size:
        tag = message[at]
        at += 1
        if tag != _RECORD and tag not in tables:
            tag, at = _tag(message, at - 1)
        if tag == _RECORD or tag in tables:
            length = message[at]
            at += 1
            if length > 0x7F:
                length, at = _size(message, at - 1)
            if tag == _RECORD:
                begins.append(at)
                ends.append(at + length)
            else:
                tables[tag].append(message[at : at + length])
            at += length
        else:
            at = _after_value(message, at, tag)
    if at != size:
        raise ValueError("a field is longer than its message")
    if not begins:
        raise ValueError("no user records")
    keys = [key.decode() for key in tables[_KEY_TABLE]]
    hash_keys = [number.decode() for number in tables[_HASH_TABLE]]
    if any(len(key) > _LONGEST_KEY for key in keys):
        raise ValueError("a partition key is longer than the service allows")
    if not all(n.isascii() and n.isdigit() and len(n) <= _HASH_KEY_DIGITS for n in hash_keys):
        raise ValueError("an explicit hash key is not of digits")
    parts = None
    if len(begins) > _FEW:
        parts = _all_at_once(message, np.array(begins), np.array(ends))
    if parts is None:
        parts = _one_by_one(message, begins, ends)
    key_index, hash_index = parts[:2]
    if key_index.max() >= len(keys) or hash_index.max() >= len(hash_keys):
        raise ValueError("a user record names a key that is not in the table")
    return UserRecords(keys, hash_keys, *parts)


def _all_at_once(
    message: bytes, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Parts | None:
    """Read user records that have their fields in the usual order, or return None."""
    text = np.frombuffer(message, np.uint8)
    last = len(text) - 1

    def tagged(at: npt.NDArray[np.int64], tag: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = text[np.minimum(at, last)] == tag
        return found

    usual = tagged(begins, _KEY_INDEX)
    key_index, at = _varints(text, begins + 1, usual)
    explicit = tagged(at, _HASH_INDEX)
    hash_index, after_hash = _varints(text, at + 1, explicit)
    at = np.where(explicit, after_hash, at)
    usual &= tagged(at, _DATA)
    sizes, at = _varints(text, at + 1, usual)
    if not (usual & (at + sizes == ends)).all():
        return None
    return key_index, np.where(explicit, hash_index, -1), at, ends


def _varints(
    text: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], wanted: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Read a number at each position that is wanted, and return the positions after them.

    A number that needs more than 63 bits is taken out of `wanted`.
    """
    numbers = np.zeros(len(at), np.int64)
    more, shift = wanted, 0
    while more.any() and shift < 7 * _LONGEST_INT64_VARINT:
        byte = text[np.minimum(at, len(text) - 1)].astype(np.int64)
        numbers |= np.where(more, (byte & 0x7F) << shift, 0)
        at = at + more
        more = more & (byte > 0x7F)
        shift += 7
    wanted &= ~more
    return numbers, at


def _one_by_one(message: bytes, begins: list[int], ends: list[int]) -> Parts:
    """Read user records with any fields in any order."""
    rows = [_user_record(message, begin, end) for begin, end in zip(begins, ends, strict=True)]
    columns = np.array(rows, np.int64).T
    return columns[0], columns[1], columns[2], columns[3]


def _user_record(message: bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    key_index, hash_index, begin, end = -1, -1, -1, -1
    while at < stop:
        tag, at = _tag(message, at)
        if tag == _KEY_INDEX:
            key_index, at = _varint(message, at)
        elif tag == _HASH_INDEX:
            hash_index, at = _varint(message, at)
        elif tag == _DATA:
            size, begin = _size(message, at)
            at = end = begin + size
        else:
            at = _after_value(message, at, tag)
    if at > stop or key_index < 0 or begin < 0:
        raise ValueError("a user record is cut, or lacks its key or data")
    if max(key_index, hash_index) > len(message):
        raise ValueError("a user record names a key that is not in the table")
    return key_index, hash_index, begin, end


def _tag(message: bytes, at: int) -> tuple[int, int]:
    tag, after = _varint(message, at)
    if not _FIRST_TAG <= tag <= _LAST_TAG or after - at > _SHORT_BYTES:
        raise ValueError("no number of a field")
    return tag, after


def _size(message: bytes, at: int) -> tuple[int, int]:
    size, after = _varint(message, at)
    if after - at > _SHORT_BYTES:
        raise ValueError("a length is too long")
    return size, after


def _after_value(message: bytes, at: int, tag: int, depth: int = 1) -> int:
    """Return the position after the value of a field of no interest."""
    kind = tag & 7
    if kind == _NUMBER:
        _, at = _varint(message, at)
    elif kind == _WITH_LENGTH:
        size, at = _size(message, at)
        at += size
    elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
        at += 8 if kind == _EIGHT_BYTES else 4
    elif kind == _GROUP and depth <= _DEEPEST_GROUP:
        inner, at = _tag(message, at)
        while inner != tag - _GROUP + _GROUP_END:
            at = _after_value(message, at, inner, depth + 1)
            inner, at = _tag(message, at)
    else:
        raise ValueError("an unknown type of field, or groups that are too deep")
    return at


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number & _UINT64, at
    raise ValueError("a number is too long")
