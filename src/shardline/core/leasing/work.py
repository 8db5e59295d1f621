"""What a consumer has in hand, and what it did that the table does not know yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.positions import Position


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that is mine now."""

    epoch: int
    checkpoint: Position
    """Where to go on: the last acknowledgement, written down or not yet."""
    as_of: datetime | None
    finishing: bool
    """Somebody waits for it: begin nothing new, and say when nothing runs in it."""


@dataclass(slots=True)
class Work:
    """What the consumer did under a lease and the table does not know yet."""

    epoch: int
    saved_at: float
    taken_at_epoch: int | None = None
    """The epoch that my take was conditional on: nobody was in between."""
    acknowledged: Position | None = None
    as_of: datetime | None = None
    gap: str = ""
    ended: bool = False
    finished: bool = False


def phase(shard_id: str) -> float:
    """Spread the checkpoints of shards that were taken together: a part of their interval."""
    return crc32(shard_id.encode()) / 2**32
