"""Conversions of request members."""

from __future__ import annotations

from shardline.core.shards import HASH_SPACE_END
from shardline.local.refusals import Refusal


def time_ms(seconds: float) -> int:
    """Return a timestamp in seconds since 1970, rounded up to milliseconds."""
    microseconds = round(seconds * 1_000_000)
    return -(-microseconds // 1000)


def explicit_hash_key(value: str) -> int:
    """Return the value of an ExplicitHashKey, or raise `Refusal`."""
    if int(value) > HASH_SPACE_END:
        raise Refusal(
            "InvalidArgumentException",
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "
            f"Specified value was {value}",
        )
    return int(value)
