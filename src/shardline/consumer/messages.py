"""The messages between a worker's two processes: the keeper holds leases, the runner works.

Messages are small values; records never travel between the two. A pipeline is named by its stream,
its shard and the epoch under which it works, so that no message can meet another pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.positions import Position


class PipelineKey(NamedTuple):
    """Which pipeline: one shard of one stream, under one epoch."""

    stream_name: str
    shard_id: str
    epoch: int


# --- from the keeper to the runner ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartPipeline:
    """The lease is held: read from the checkpoint and deliver."""

    key: PipelineKey
    checkpoint: Position
    as_of: datetime | None = None
    parked: frozenset[str] = frozenset()
    """Keys whose records go to the dead letters until they are redriven."""
    suspected: bool = False
    """Work began here before and ended without an acknowledgement: report success soon."""
    stream_created_at: datetime | None = None
    """Of the stream that the shard belongs to: a table may have several."""


@dataclass(frozen=True, slots=True)
class FinishPipeline:
    """Another worker waits, or this one stops: finish the running delivery, then report."""

    key: PipelineKey


@dataclass(frozen=True, slots=True)
class StopPipeline:
    """The lease is lost: deliver nothing more, acknowledge nothing."""

    key: PipelineKey


@dataclass(frozen=True, slots=True)
class LeasesValid:
    """All leases may be worked under until this moment of the machine's clock."""

    until: float


@dataclass(frozen=True, slots=True)
class KeyIsParked:
    """The row of a parked key is durable: what came with it may be acknowledged."""

    key: PipelineKey
    record_key: str


@dataclass(frozen=True, slots=True)
class Quit:
    """Everything was finished: end the process."""


ToRunner = StartPipeline | FinishPipeline | StopPipeline | LeasesValid | KeyIsParked | Quit

# --- from the runner to the keeper ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Everything up to this position was processed."""

    key: PipelineKey
    position: Position
    as_of: datetime | None
    lag_ms: int | None
    """How far the position is behind the tip; None where the service does not say."""


@dataclass(frozen=True, slots=True)
class ConsumerCalled:
    """The consumer is about to be called; sent until a pipeline's first acknowledgement."""

    key: PipelineKey


@dataclass(frozen=True, slots=True)
class ConsumerReturned:
    """The call of the consumer that was reported has ended."""

    key: PipelineKey


@dataclass(frozen=True, slots=True)
class KeyParked:
    """A record of this key was written to the dead letters; later ones of the key follow it.

    Nothing is acknowledged before the keeper has answered with `KeyIsParked`.
    """

    key: PipelineKey
    record_key: str
    letter_id: str


@dataclass(frozen=True, slots=True)
class GapFound:
    """Records expired before they were read, and the policy is to go on."""

    key: PipelineKey
    text: str


@dataclass(frozen=True, slots=True)
class ShardProcessed:
    """A closed shard was processed to its end."""

    key: PipelineKey


@dataclass(frozen=True, slots=True)
class PipelineFinished:
    """Nothing runs in a pipeline that was to be finished."""

    key: PipelineKey


@dataclass(frozen=True, slots=True)
class PipelineHalted:
    """The failure policy stops the shard: nothing is acknowledged past the failure."""

    key: PipelineKey
    reason: str


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """The pipeline itself died; it may be started again."""

    key: PipelineKey
    reason: str
    counted: bool = True
    """False if it died for no fault of its own."""


@dataclass(frozen=True, slots=True)
class PipelineBlocked:
    """A shard cannot be started, because a call of its consumer that was given up still runs.

    Nobody else has taken it meanwhile: only another process can go on with it.
    """

    key: PipelineKey


@dataclass(frozen=True, slots=True)
class PipelineStalled:
    """The consumer did not return in time: the pipeline was abandoned."""

    key: PipelineKey
    seconds: float


@dataclass(slots=True)
class Counts:
    """What a runner did with one stream since it was started."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    retries: int = 0
    dead_letters: int = 0
    reads: int = 0
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class Pulse:
    """The runner is alive; sent about once a second."""

    counts: dict[str, Counts] = field(default_factory=dict)
    """By stream."""
    waiting_ms: dict[PipelineKey, int] = field(default_factory=dict)
    """How long the shards wait whose consumer, or whose service, takes more than a moment."""


FromRunner = (
    Acknowledged
    | ConsumerCalled
    | ConsumerReturned
    | KeyParked
    | GapFound
    | ShardProcessed
    | PipelineFinished
    | PipelineHalted
    | PipelineFailed
    | PipelineBlocked
    | PipelineStalled
    | Pulse
)
