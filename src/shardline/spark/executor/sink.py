"""The user's consumer as a Spark sink: its deliveries run in the tasks that read the records."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from shardline.consumer.dead_letters import open_dead_letters
from shardline.consumer.logs import log_to_stderr
from shardline.consumer.policies import DeadLetter
from shardline.leases.address import open_table
from shardline.leases.port import TableUnavailable
from shardline.services.addresses import parse_address
from shardline.spark.executor.delivery import Counts, Delivering
from shardline.spark.process_metrics import DELIVERIES, add_to_tally

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from shardline.consumer.consumer import ShardConsumer
    from shardline.leases.port import LeaseTable
    from shardline.spark.options import Connection, LeaseOptions

logger = logging.getLogger(__name__)

FORMAT: Final = "shardline-consumer"
_BATCH_ID: Final = "streaming.sql.batchId"
_ASK_AGAIN_SECONDS: Final = 0.5
_LEASES_REMEMBERED: Final = 10_000


@dataclass
class Delivered(WriterCommitMessage):
    """What one task did."""

    counts: Counts


class ConsumerWriter(DataSourceStreamArrowWriter):
    """Writes a batch by delivering it. A task that raises is run again by Spark, or fails it."""

    def __init__(
        self,
        consumer: ShardConsumer,
        stream: Connection,
        leases: LeaseOptions | None,
        tallies: Path | None,
    ) -> None:
        self._consumer = consumer
        self._stream = stream
        self._leases = leases
        self._tallies = tallies

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Deliver a task's rows."""
        log_to_stderr()
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a sink writes in a Spark task only")
        delivering = Delivering(
            self._consumer,
            batch=int(context.getLocalProperty(_BATCH_ID) or 0),
            attempt=context.taskAttemptId(),
            still_held=partial(
                _still_held, self._leases, parse_address(self._stream.address).stream_name
            ),
            dead_letters=(
                open_dead_letters(self._consumer.failure.to, self._stream.access)
                if isinstance(self._consumer.failure, DeadLetter)
                else None
            ),
        )
        return Delivered(delivering.run(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Count on the driver what the tasks did."""
        if self._tallies is not None:
            total: Counter[str] = Counter()
            for message in messages:
                if isinstance(message, Delivered):
                    total.update(asdict(message.counts))
            add_to_tally(self._tallies, DELIVERIES, total)


def sink_for(
    consumer: ShardConsumer,
    stream: Connection,
    leases: LeaseOptions | None,
    tallies: Path | None = None,
) -> type[DataSource]:
    """Return a Spark sink that delivers to this consumer; register it, then name its format.

    What it counts goes to `tallies`, a folder on the driver.
    """

    class ConsumerSink(DataSource):
        @classmethod
        def name(cls) -> str:
            return FORMAT

        def streamWriter(  # noqa: N802 - Spark's name
            self,
            schema: StructType,  # noqa: ARG002
            overwrite: bool,  # noqa: ARG002
        ) -> ConsumerWriter:
            return ConsumerWriter(consumer, stream, leases, tallies)

    return ConsumerSink


def is_held(table: LeaseTable, app_name: str, stream_name: str, shard_id: str, epoch: int) -> bool:
    """Ask the table whether a lease is still of this epoch and not given back.

    Epochs only grow, so a no is final: nothing can be acknowledged under this epoch any more.
    """
    row = table.read_rows(app_name, stream_name, [shard_id]).get(shard_id)
    return row is not None and row.epoch == epoch and row.lease_owner is not None


def _still_held(leases: LeaseOptions | None, stream_name: str, shard_id: str, epoch: int) -> bool:
    """Ask until there is an answer: taking silence for a no would drop records of our own.

    A yes is good for a tenth of the lease time, by a clock that goes on while a process is frozen:
    many small batches need not ask for each.
    """
    if leases is None:
        return True
    lease = (leases, stream_name, shard_id, epoch)
    if time.monotonic() < _good_until.get(lease, 0.0):
        return True
    deadline = time.monotonic() + leases.lease_seconds
    while True:
        asked_at = time.monotonic()
        try:
            held = is_held(_table(leases.table), leases.app_name, stream_name, shard_id, epoch)
        except TableUnavailable as error:
            if time.monotonic() > deadline:
                raise
            logger.warning("%s: %s; asking again in a moment", shard_id, error)
            time.sleep(_ASK_AGAIN_SECONDS)
        else:
            _remember(lease, asked_at + leases.lease_seconds / 10 if held else 0.0)
            return held


_good_until: dict[tuple[LeaseOptions, str, str, int], float] = {}
"""When to ask again about a lease; of this Python worker, which lives over many batches."""


def _remember(lease: tuple[LeaseOptions, str, str, int], until: float) -> None:
    if len(_good_until) >= _LEASES_REMEMBERED:
        _good_until.clear()
    _good_until[lease] = until


@lru_cache(maxsize=8)
def _table(connection: Connection) -> LeaseTable:
    """Keep the connection to a lease table for as long as the Python worker lives."""
    return open_table(
        connection.address,
        connection.access,
    )
