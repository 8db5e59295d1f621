"""Packs records of one key into one record, in the format of the Kinesis Producer Library.

`services.aggregation` has the format, and splits it again. A packed record holds records of one key
only, so that a split or merge of shards never puts one into a shard that is not its own.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from shardline.services.aggregation import MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.core.writes.entries import Entry


def aggregated(entries: Sequence[Entry]) -> bytes:
    """Return the data of one record that holds all of these, which have one key and hash key."""
    first = entries[0]
    parts = [_field(1, first.key.encode())]
    places = b"\x08\x00"  # field 1, the index of the key: 0
    if first.hash_key is not None:
        parts.append(_field(2, first.hash_key.encode()))
        places += b"\x10\x00"  # field 2, the index of the explicit hash key: 0
    for entry in entries:
        size = len(entry.data)
        head = places + b"\x1a" + (size.to_bytes() if size < 0x80 else _varint(size))
        parts += (b"\x1a", _varint(len(head) + size), head, entry.data)
    message = b"".join(parts)
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
