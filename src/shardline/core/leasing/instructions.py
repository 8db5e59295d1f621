"""What `LeaseState.handle` returns: reads and writes of the table, and calls to the worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardline.core.leasing.holdings import Held
    from shardline.core.leasing.rows import Heartbeat, LeaseRow


@dataclass(frozen=True, slots=True)
class Create:
    """Write a row that is missing, or that belongs to an earlier stream of this name."""

    new: LeaseRow
    expected: LeaseRow | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Take a lease, or take it anew, under a higher epoch."""

    new: LeaseRow
    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Save:
    """Write a checkpoint, a completion or a mark, and keep or end the lease."""

    new: LeaseRow
    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Release:
    """Release a lease, with the last checkpoint in the same write."""

    new: LeaseRow
    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a completed row that nothing needs."""

    expected: LeaseRow


@dataclass(frozen=True, slots=True)
class Renew:
    """Write this worker's next heartbeat."""

    new: Heartbeat
    expected: Heartbeat | None


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the heartbeat of a dead worker that owns nothing, or this worker's when it left."""

    expected: Heartbeat


@dataclass(frozen=True, slots=True)
class Bump:
    """Move the header's counter, so that all other workers read again."""

    settled: bool = False


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Read these rows consistently, then ask again what to do."""

    shard_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScanRows:
    """Read all rows, then ask again what to do."""


@dataclass(frozen=True, slots=True)
class ReadHeartbeats:
    """Read the heartbeats of these workers consistently, then ask again what to do."""

    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadParkedKeys:
    """Read the parked keys of shards that were just taken, and write those that they inherit."""

    shards: tuple[tuple[str, int, tuple[str, ...]], ...]
    """(shard id, epoch, parents) of each; no parents if it inherited before."""


@dataclass(frozen=True, slots=True)
class Start:
    """Call the worker: this shard is yours under this epoch, which was never started before."""

    shard_id: str
    epoch: int
    lease: Held


@dataclass(frozen=True, slots=True)
class Finish:
    """Call the worker: begin nothing new in this shard; report when nothing runs in it."""

    shard_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Call the worker: stop at once, the lease is gone or about to be released."""

    shard_id: str
    epoch: int


RowWrite = Create | Take | Save | Release
Write = RowWrite | Delete | Renew | Forget | Bump
Read = ReadRows | ScanRows | ReadHeartbeats | ReadParkedKeys
ToWorker = Start | Finish | Stop
Instruction = Write | Read | ToWorker


def describe(instruction: Instruction) -> str:
    """Return an instruction in a few words."""
    match instruction:
        case Create(new) | Take(new) | Save(new) | Release(new):
            what = type(instruction).__name__.lower()
            if new.completed:
                what = "complete"
            elif new.halted:
                what = "halt"
            return f"{what} {new.shard_id} (epoch {new.epoch}, {new.checkpoint})"
        case Start(shard_id, epoch) | Finish(shard_id, epoch) | Stop(shard_id, epoch):
            return f"{type(instruction).__name__.lower()} {shard_id} (epoch {epoch})"
        case _:
            return type(instruction).__name__.lower()
