"""A record to write, and the limits of the service for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shardline.core.shards import HASH_SPACE_END
from shardline.errors import ConfigurationError

MIB: Final = 1024 * 1024
LARGEST_RECORD_BYTES: Final = 10 * MIB
"""Of the data. A stream takes less, by default 1 MiB, unless its maximum record size was raised."""
LONGEST_KEY: Final = 256
_SHOWN: Final = 40


@dataclass(slots=True)
class Entry:
    """One record to write. Make one with `make_entry`, which checks it."""

    key: str
    data: bytes
    hash_key: str | None
    size_bytes: int
    """What the quotas count: the data and the key."""


def make_entry(key: str, data: bytes, hash_key: str | None = None) -> Entry:
    """Return a record to write. Raises `ConfigurationError` for one that no stream takes.

    `hash_key` selects the shard instead of the MD5 of the key: a number below 2**128, as digits.
    """
    if not 0 < len(key) <= LONGEST_KEY:
        shown = f"{key[:_SHOWN]!r}… has {len(key)}" if key else "an empty one has none"
        raise ConfigurationError(
            f"a partition key has 1 to {LONGEST_KEY} characters, {shown}: shorten it"
        )
    key_bytes = len(key) if key.isascii() else len(key.encode())
    if len(data) + key_bytes > LARGEST_RECORD_BYTES:
        raise ConfigurationError(
            f"a record of key {key[:_SHOWN]!r} has {len(data):,} bytes: a record and its key have "
            f"at most {LARGEST_RECORD_BYTES:,}, so split it, or write its place instead"
        )
    if hash_key is not None:
        digits = hash_key.isascii() and hash_key.isdigit() and len(hash_key) < _SHOWN
        if not digits or int(hash_key) > HASH_SPACE_END or str(int(hash_key)) != hash_key:
            raise ConfigurationError(
                f"{hash_key[:_SHOWN]!r} is no explicit hash key: write a whole number below 2**128"
            )
    return Entry(key, data, hash_key, len(data) + key_bytes)
