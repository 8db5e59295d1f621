"""What leasing tells a worker to do: writes to the table, and words to the consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardline.core.leasing.rows import Heartbeat, LeaseRow
    from shardline.core.positions import Position


@dataclass(frozen=True, slots=True)
class Create:
    """Write a row that is missing, or that belongs to an earlier stream of this name."""

    new: LeaseRow
    expected: LeaseRow | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Make a lease mine, under the next epoch."""

    new: LeaseRow
    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Save:
    """Write a checkpoint, a completion or a mark, and keep or end the lease."""

    new: LeaseRow
    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Release:
    """Give a lease back, with the last checkpoint in the same write."""

    new: LeaseRow
    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a finished row that nothing needs."""

    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Renew:
    """Move my heartbeat on."""

    new: Heartbeat
    expected: Heartbeat | None


@dataclass(frozen=True, slots=True)
class RequestHandover:
    """Move my heartbeat on, and ask in it for shards of others."""

    new: Heartbeat
    expected: Heartbeat | None


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the heartbeat of a dead worker that owns nothing, or my own when I have left."""

    expected: Heartbeat


@dataclass(frozen=True, slots=True)
class Bump:
    """Move the header's counter, so that all others look."""

    settled: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Tell the consumer: this shard is yours, from here on."""

    shard_id: str
    epoch: int
    checkpoint: Position


@dataclass(frozen=True, slots=True)
class Finish:
    """Tell the consumer: begin nothing new in this shard; say when nothing runs in it."""

    shard_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Yield:
    """Tell the consumer: stop now, this lease is not yours (any more)."""

    shard_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do."""


Write = Create | Take | Save | Release
Instruction = (
    Write | Delete | Renew | RequestHandover | Forget | Bump | Start | Finish | Yield | Wait
)


def said(did: Instruction) -> str:
    """Say an instruction in a few words."""
    match did:
        case Create(new) | Take(new) | Save(new) | Release(new):
            what = "complete" if new.completed else type(did).__name__.lower()
            return f"{what} {new.shard_id} (epoch {new.epoch}, {new.checkpoint})"
        case _:
            return type(did).__name__.lower()
