"""The records that are written: when, under which key, and the how-manieth of that key.

Every record starts with a header of 36 bytes, `TIME KEY NUMBER `, so that a reader of any language
can find out how old a record is, and what is missing or repeated. 36 bytes are 48 characters of
base64 without padding: the filling after it is encoded once.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

RECORD_BYTES: Final = 999
STAMP_BYTES: Final = 17
HEADER_BYTES: Final = 36
SHARD_RECORDS_PER_SECOND: Final = 980
"""A full shard: the service takes 1,000 records or 1 MiB a second."""
SHARD_READ_BYTES_PER_SECOND: Final = 2 * 1024 * 1024
_HASH_KEYS: Final = 2**128
_FILLING: Final = b64encode(b"x" * (RECORD_BYTES - HEADER_BYTES))


def header(put_at: float, key: int, number: int) -> bytes:
    """Return the first bytes of a record."""
    return b"%.6f k%04d %011d " % (put_at, key, number)


def entry(put_at: float, key: int, number: int, hash_key: int) -> bytes:
    """Return one entry of a PutRecords request."""
    return b'{"PartitionKey":"k%04d","ExplicitHashKey":"%d","Data":"%b%b"}' % (
        key,
        hash_key,
        b64encode(header(put_at, key, number)),
        _FILLING,
    )


def hash_key_of(shard: int, shards: int, key: int, keys: int) -> int:
    """Return where a key of one of the first shards lies; keys are spread over their shard."""
    width = _HASH_KEYS // shards
    return shard * width + (2 * key + 1) * width // (2 * keys)
