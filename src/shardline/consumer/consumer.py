"""The user's part of the pipeline: what is called for each shard, and what to do when it fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from shardline.core.fences import Fence


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again with growing pauses, and say so; after the last attempt the worker halts."""

    attempts: int = 8
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 30.0

    def delay_seconds(self, attempt: int) -> float:
        """Return how long to wait after the n-th failure, from 1."""
        return float(min(self.longest_delay_seconds, self.first_delay_seconds * 2 ** (attempt - 1)))


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop the worker at the first failure: nothing is checkpointed past it.

    A cluster runs a failed task again by itself, `spark.task.maxFailures` times in all.
    """


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Write what fails to a safe place with the reason, and go on.

    `to` is `kinesis://STREAM`, `dynamodb://TABLE` (with a hash key `id` of type string) or
    `file:///FOLDER` (one file of JSON lines for each shard; on a cluster a folder that every
    executor sees). By record, a batch that fails is processed again one record at a time, so
    that only those that fail by themselves are put aside.
    """

    to: str
    per: Literal["record", "batch"] = "record"
    attempts: int = 2
    """How often to try the batch as a whole before that."""


FailurePolicy = Retry | Halt | DeadLetter


@dataclass(frozen=True, slots=True)
class ShardBatch:
    """Records of one shard, in the order in which they were written."""

    shard_id: str
    fence: Fence
    """Higher wins: a sink that keeps the highest it has seen can refuse an older writer."""
    arrow: pa.RecordBatch
    """All columns of the source."""

    @property
    def records(self) -> Iterable[Any]:
        """The records as `KinesisRecord` or `DynamoDBRecord`, made when asked for.

        `arrow` is faster for many.
        """
        from shardline.services.records import records_of, times_of

        columns = KINESIS_COLUMNS if "partitionKey" in self.arrow.schema.names else DYNAMODB_COLUMNS
        page = self.arrow.select(columns.names)
        return records_of(self.shard_id, page, times_of(page))

    def __len__(self) -> int:
        return int(self.arrow.num_rows)


class ShardConsumer(ABC):
    """Subclass it, and hand an instance to `shardline run` or `shardline.spark.consume`.

    It travels to the executors by pickling, so open connections lazily. One shard's records come
    in order; different shards may be processed at the same time, in different processes.
    """

    failure: ClassVar[FailurePolicy] = Retry()
    """What to do when `process` raises."""

    @abstractmethod
    def process(self, batch: ShardBatch) -> None:
        """Process records of one shard. Returning acknowledges them; raising does not."""

    def shard_started(self, shard_id: str, fence: Fence) -> None:  # noqa: B027 - may be left out
        """Hear that this worker begins with a shard, before its first records."""

    def shard_ended(self, shard_id: str) -> None:  # noqa: B027
        """Hear that a closed shard was processed to its end. May come again after a crash."""

    def lease_lost(self, shard_id: str) -> None:  # noqa: B027
        """Hear that another worker has the shard now: the rest of the batch is not processed."""
