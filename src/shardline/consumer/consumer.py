"""What a user writes: a consumer, whose methods are called for each shard, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from shardline.consumer.policies import FailurePolicy, Retry
from shardline.errors import ConfigurationError
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS, SUB_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from shardline.core.fences import Fence
    from shardline.services.records import Record

ChangeOf: TypeAlias = Callable[[Any], Any]
"""Converts a `DynamoDBRecord` to a typed change. `tables/` has the conversion and is a later
layer: whoever starts a worker passes the function in, made for the consumer's `model`."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ShardBatch:
    """Records of one shard, in the order in which they were written."""

    shard_id: str
    fence: Fence
    """Higher wins: a sink that keeps the highest it has seen can refuse an older writer."""
    arrow: pa.RecordBatch
    """The records with all their columns."""
    change_of: ChangeOf | None = field(default=None, repr=False, compare=False)
    """Converts a record to a typed change; None without a model. Use `changes`."""
    is_cancelled: Callable[[], bool] = field(default=_never, repr=False, compare=False)
    """Use `cancelled`."""

    @property
    def records(self) -> Sequence[Any]:
        """The records as `KinesisRecord` or `DynamoDBRecord`, made when asked for.

        `arrow` is faster for many.
        """
        return records_in(self.shard_id, self.arrow)

    @property
    def changes(self) -> Iterator[Any]:
        """The records as changes, typed by the consumer's `model`, converted one by one.

        A change that does not fit the model raises an `ItemMismatch`.
        """
        if self.change_of is None:
            raise ConfigurationError(
                "batch.changes needs a model: set `model = …` on the consumer, for a stream of "
                "DynamoDB"
            )
        return map(self.change_of, self.records)

    @property
    def cancelled(self) -> bool:
        """True when the lease is gone: what is processed from now on is not acknowledged.

        A `process` that takes long may look at it and return early.
        """
        return self.is_cancelled()

    def __len__(self) -> int:
        return int(self.arrow.num_rows)


class ShardConsumer(ABC):
    """Subclass it, and hand an instance to `shardline run` or `shardline.spark.consume`.

    Each lease of a shard gets an object of its own, unpickled afresh, and dropped after
    `shard_released`, `shard_ended` or `lease_lost`: open connections in `shard_started`. With one
    lane all calls of an object come from one thread, except `lease_lost`.
    """

    model: ClassVar[type[Any] | None] = None
    """A `shardline.Model`, for a stream of DynamoDB: then `batch.changes` are typed by it."""

    lanes: ClassVar[int] = 1
    """How many calls of `process` may run at the same time for one shard, each with other keys."""

    failure: ClassVar[FailurePolicy] = Retry()
    """What to do when `process` raises."""

    @abstractmethod
    def process(self, batch: ShardBatch) -> None:
        """Process records of one shard. Returning acknowledges them; raising does not."""

    def shard_started(self, shard_id: str, fence: Fence) -> None:  # noqa: B027 - may be left out
        """Prepare for a shard: called before its first records under a new lease."""

    def shard_ended(self, shard_id: str) -> None:  # noqa: B027
        """Finish a shard: called when all of it is processed; may come again after a crash."""

    def shard_released(self, shard_id: str) -> None:  # noqa: B027
        """Leave a shard that is handed over or given back: called after its last records."""

    def lease_lost(self, shard_id: str) -> None:  # noqa: B027
        """Drop a shard whose lease is gone: may be called by another thread during `process`."""

    def record_failed(self, record: Any, error: Exception) -> None:  # noqa: B027
        """Note a record that is given up on: called before the policy acts.

        That is before the record is written to the dead letters, or before the shard is halted.
        Where the batch was not taken apart, it is called for each record of the batch. What it
        raises is logged, and the policy acts nevertheless.
        """


def records_in(shard_id: str, arrow: pa.RecordBatch) -> list[Record]:
    """Make the records of a batch as objects, whichever service they are from."""
    from shardline.services.records import records_of, times_of

    columns = KINESIS_COLUMNS if "partitionKey" in arrow.schema.names else DYNAMODB_COLUMNS
    added = [name for name in (SUB_SEQUENCE.name,) if name in arrow.schema.names]
    page = arrow.select([*columns.names, *added])
    return records_of(shard_id, page, times_of(page))
