"""The formats that Spark finds by itself: what runs on the driver, and what runs in a task."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from shardline.consumer.logs import log_to_stderr
from shardline.core import query_offsets
from shardline.errors import ConfigurationError
from shardline.spark.executor.columns import spark_schema
from shardline.spark.executor.images import ddl_with_images
from shardline.spark.executor.rows import TaskRanges, rows_of
from shardline.spark.option_names import DYNAMODB_STREAMS, KINESIS
from shardline.spark.options import Options, read_options
from shardline.spark.quiet_workers import end_quietly

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from shardline.core.offsets import Offset
    from shardline.spark.driver.stream_plans import StreamPlans
    from shardline.spark.sink.options import Sink


class ShardedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's source. All but `read` is called on one object, in a process of its own."""

    def __init__(self, options: Options, item: StructType | None = None) -> None:
        self._options = options
        self._item = item
        self._stream_plans: StreamPlans | None = None
        self._start: dict[str, Any] = {}
        self._committed: dict[str, Offset] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return an offset in which nothing is resolved: the first plan does that."""
        first = self._options.first_offset
        return query_offsets.to_json({c.name: first for c in self._options.connections})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Bound every batch, unless the trigger asks for everything."""
        return ReadMaxRows(self._options.max_records_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix what counts as available now."""
        self._plans().set_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the batch after `start`, which Spark has committed before it asks."""
        if start != self._start:  # polled every few milliseconds: parse an offset once
            self._start, self._committed = start, self._offsets(start)
        max_records = _max_records(limit)
        planned = self._plans().ask(self._committed, max_records, all_available=max_records is None)
        if planned is None:
            return start
        # The next start, most likely.
        self._start, self._committed = query_offsets.to_json(planned), planned
        return self._start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the newest plan, for Spark's progress reports."""
        latest = self._stream_plans.offered() if self._stream_plans else None
        return query_offsets.to_json(latest) if latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges that `end` holds, shared among tasks."""
        committed = self._offsets(start)
        partitions = self._plans().partitions(committed, self._offsets(end))
        if all(offset.created_at is None for offset in committed.values()):
            # Let the first batch start all workers, which takes seconds, even if it is empty.
            missing = range(len(partitions), os.cpu_count() or 1)
            partitions += [TaskRanges(self._options.connections[0]) for _ in missing]
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's ranges."""
        return rows_of(self._options, partition, self._item)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: it comes a batch late or never; the `start` of `latestOffset` tells."""

    def stop(self) -> None:
        """Stop the threads and close the connections."""
        if self._stream_plans is not None:
            self._stream_plans.close()

    def _offsets(self, value: dict[str, Any]) -> dict[str, Offset]:
        names = [connection.name for connection in self._options.connections]
        return query_offsets.from_json(value, names, self._options.first_offset)

    def _plans(self) -> StreamPlans:
        """Make the planner at first use: this object also travels to the executors, without it."""
        if self._stream_plans is None:
            from shardline.spark.driver.stream_plans import StreamPlans

            # Raised here: an error in streamReader() is lost in Spark's own.
            ending = {"endingPosition": self._options.end, "shardId": self._options.shards}
            for name, value in ending.items():
                if value is not None:
                    raise ConfigurationError(
                        f"option {name} is for spark.read, which ends: leave it out of "
                        "spark.readStream"
                    )
            log_to_stderr()
            _stop_on_sigterm()
            self._stream_plans = StreamPlans(self._options)
        return self._stream_plans


class _Source(DataSource):
    """What the formats share."""

    format: str

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(…)`."""
        return cls.format

    def schema(self) -> StructType | str:
        """Check the options, which makes a mistake show at load(), and return the columns."""
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # our messages are whole in one line
        options = self._options()
        columns = spark_schema(self.format)
        return ddl_with_images(columns, options.item_schema) if options.item_schema else columns

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        options = self._options()
        return ShardedStreamReader(options, _item_in(schema, options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a bounded range."""
        from shardline.spark.driver.batch import FilteredReader, ShardedReader
        from shardline.spark.driver.pushed_filters import filters_are_pushed

        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        options = self._options()
        if options.snapshot:
            raise ConfigurationError(
                "option startingPosition: snapshot is for spark.readStream, which goes on with the "
                "changes of the table"
            )
        kind = FilteredReader if filters_are_pushed() else ShardedReader
        return kind(options, _item_in(schema, options))

    def _options(self) -> Options:
        end_quietly()
        return read_options(self.format, self.options)


class KinesisSource(_Source):
    """`format("kinesis")`: to read and to write."""

    format = KINESIS

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        from shardline.spark.sink.writers import RowWriter

        return RowWriter(self._sink(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a streaming query."""
        from shardline.spark.sink.writers import StreamRowWriter

        return StreamRowWriter(self._sink(schema, overwrite))

    def _sink(self, schema: StructType, overwrite: bool) -> Sink:
        from shardline.spark.sink.options import read_sink

        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        end_quietly()
        return read_sink(self.options, schema, overwrite=overwrite)


class ShardlineKinesisSource(KinesisSource):
    """`format("shardline-kinesis")`: the same, where a JVM source has the name "kinesis"."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(…)`."""
        return "shardline-kinesis"


class DynamoDBStreamsSource(_Source):
    """`format("dynamodb-streams")`."""

    format = DYNAMODB_STREAMS


def _item_in(schema: StructType, options: Options) -> StructType | None:
    """Return the type of the images as Spark has parsed it, if the user declared one."""
    item = schema["newImage"].dataType if options.item_schema else None
    return item if isinstance(item, StructType) else None


def _max_records(limit: ReadLimit) -> int | None:
    match limit:
        case ReadMaxRows(max_rows):
            return max_rows
        case ReadAllAvailable():
            return None
    raise ConfigurationError(f"this source cannot limit a batch by {type(limit).__name__}")


def _stop_on_sigterm() -> None:
    """Turn Spark's signal into a normal end, so that stop() is reached; it may be sent twice."""

    def leave(number: int, frame: object) -> None:  # noqa: ARG001
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
