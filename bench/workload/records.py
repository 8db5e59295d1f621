"""The records that are written: when, under which key, and the how-manieth of that key.

Every record starts with a header of 36 bytes, `TIME KEY NUMBER `, so that a reader of any language
can find out how old a record is, and what is missing or repeated. Each part of it, with its space,
is a multiple of three bytes, and so is encoded by itself: a writer does for each record only what
differs.
"""

from __future__ import annotations

from binascii import b2a_base64
from itertools import count
from typing import Final

RECORD_BYTES: Final = 999
STAMP_BYTES: Final = 17
HEADER_BYTES: Final = 36
SHARD_RECORDS_PER_SECOND: Final = 980
"""A full shard: the service takes 1,000 records or 1 MiB a second."""
SHARD_READ_BYTES_PER_SECOND: Final = 2 * 1024 * 1024
_HASH_KEYS: Final = 2**128


def _encoded(data: bytes) -> bytes:
    return b2a_base64(data, newline=False)


END: Final = _encoded(b"x" * (RECORD_BYTES - HEADER_BYTES)) + b'"}'
"""Of every entry: the filling."""


def name_of(key: int) -> str:
    """Return the partition key of a number."""
    return f"k{key:04}"


class Entries:
    """The entries of one key in PutRecords requests, numbered."""

    def __init__(self, key: int, hash_key: int, first_number: int) -> None:
        name = name_of(key).encode()
        self._head = b'{"PartitionKey":"%b","ExplicitHashKey":"%d","Data":"' % (name, hash_key)
        self._name = _encoded(name + b" ")
        self._numbers = count(first_number)

    def next_parts(self, stamp: bytes) -> tuple[bytes, ...]:
        """Return the parts of the next entry, which was put at a time: see `stamp_of`."""
        return self._head, stamp, self._name, _encoded(b"%011d " % next(self._numbers)), END


def stamp_of(put_at: float) -> bytes:
    """Return the encoded time of an entry."""
    return _encoded(b"%.6f " % put_at)


def hash_key_of(shard: int, shards: int, key: int, keys: int) -> int:
    """Return where a key of one of the first shards lies; keys are spread over their shard."""
    width = _HASH_KEYS // shards
    return shard * width + (2 * key + 1) * width // (2 * keys)
