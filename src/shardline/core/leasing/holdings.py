"""The leases of one worker: what it does under each, and what the table does not know yet.

One pipeline, one epoch: work starts once under an epoch. When it was stopped for any reason, the
lease is taken anew, under a higher epoch, before work starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.positions import Position


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that may be worked under now."""

    epoch: int
    checkpoint: Position
    """Where to go on: the last acknowledgement, whether it was written down or not."""
    as_of: datetime | None
    """No unprocessed record of the shard arrived before this service time."""
    finishing: bool
    """True if nothing new may begin: report when nothing runs in the shard."""
    parked: frozenset[str] = frozenset()
    """The keys whose records go to the dead letters."""
    suspected: bool = False
    """True if work began here before and ended without an acknowledgement."""
    stream_created_at: datetime | None = None
    """Of the stream that the shard belongs to; a table may have several."""


class Stage(Enum):
    """How far the work under a lease has come."""

    TAKEN = "taken"
    """Work has not started: parked keys are being read."""
    STARTED = "started"
    FINISHING = "finishing"
    """Nothing new begins; what runs is finished."""
    FINISHED = "finished"
    """Nothing runs: the lease can be released."""
    STOPPED = "stopped"
    """Work ended under this epoch, and never starts again under it."""


AT_WORK = (Stage.STARTED, Stage.FINISHING, Stage.FINISHED)


@dataclass(slots=True)
class Holding:
    """A lease of this worker under one epoch."""

    epoch: int
    saved_at: float
    stage: Stage = Stage.TAKEN
    parked: frozenset[str] | None = None
    """None until they were read."""
    acknowledged: Position | None = None
    """What the table does not know yet."""
    as_of: datetime | None = None
    lag_ms: int | None = None
    gap: str = ""
    ended_at: float | None = None
    """When work reported that it processed the shard to its end."""
    failed: str = ""
    """Why the work ended badly: the lease is given up, or taken anew."""
    counted: bool = True
    """True if a failure counts as a start without success."""
    given_up: bool = False
    halted: bool = False


class Holdings:
    """The leases of one worker by shard, and the last epoch that was started for each."""

    def __init__(self) -> None:
        self.by_shard: dict[str, Holding] = {}
        self.avoided_until: dict[str, float] = {}
        """Shards that were given up here, and until when they are left to others."""
        self.completed_here: set[str] = set()
        """Shards that this worker completed: it is the first to know of their children."""
        self._last_started: dict[str, int] = {}

    def adopt(self, shard_id: str, epoch: int, now: float, saved_ago: float = 0.0) -> Holding:
        """Return the holding under an epoch; a new one if the row shows a take of this worker."""
        holding = self.by_shard.get(shard_id)
        if holding is None or holding.epoch != epoch:
            holding = self.by_shard[shard_id] = Holding(epoch, now - saved_ago)
            if epoch <= self._last_started.get(shard_id, -1):
                holding.stage = Stage.STOPPED
        return holding

    def get(self, shard_id: str, epoch: int) -> Holding | None:
        """Return the holding under an epoch, if there is one."""
        holding = self.by_shard.get(shard_id)
        return holding if holding is not None and holding.epoch == epoch else None

    def start(self, shard_id: str, holding: Holding) -> None:
        """Record that work starts. An epoch is started once."""
        if holding.epoch <= self._last_started.get(shard_id, -1):
            raise AssertionError(f"{shard_id} was started under epoch {holding.epoch} before")
        self._last_started[shard_id] = holding.epoch
        holding.stage = Stage.STARTED

    def avoided(self, now: float) -> set[str]:
        """Return the shards that are left to others for now."""
        return {i for i, until in self.avoided_until.items() if now < until}

    def drop(self, shard_id: str) -> None:
        """Record that the lease is not this worker's any more."""
        self.by_shard.pop(shard_id, None)


def phase(shard_id: str) -> float:
    """Return a part of an interval by which a shard's checkpoints differ from those of others."""
    return crc32(shard_id.encode()) / 2**32
