"""When a shard was opened or closed, as far as that can be derived.

No call returns these times. Kinesis encodes them in its sequence numbers, DynamoDB Streams in its
shard ids. Neither documents this, so the times are shown to people and decide nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shardline.core.shards import SequenceNumber, Shard

_EARLIEST: Final = 1_384_000_000  # November 2013, when Kinesis began
_LATEST: Final = 4_102_444_800  # 2100
_KINESIS_DIGITS: Final = 47
_DYNAMODB_ID: Final = re.compile(r"shardId-(\d{20})-[0-9a-f]+")


def opened_at(shard: Shard, stream_created_at: float | None = None) -> float | None:
    """Return when a shard was opened, in seconds since 1970, or None if unknown."""
    if match := _DYNAMODB_ID.fullmatch(shard.id):
        return _plausible(int(match[1]) / 1000)
    if not shard.parents and stream_created_at is not None:
        return stream_created_at  # Kinesis names a parent even when it is trimmed: this is a root
    return _time_in(shard.first, 1)


def closed_at(shard: Shard) -> float | None:
    """Return when a shard was closed, or None if it is open or unknown."""
    return _time_in(shard.last, 29)


def _time_in(number: SequenceNumber | None, at: int) -> float | None:
    if number is None:
        return None
    digits = f"{int(number):x}"
    if len(digits) != _KINESIS_DIGITS or digits[0] != "2" or digits[-1] != "2":
        return None
    return _plausible(int(digits[at : at + 9], 16))


def _plausible(seconds: float) -> float | None:
    return seconds if _EARLIEST < seconds < _LATEST else None
