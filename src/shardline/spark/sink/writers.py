"""What Spark calls to write: once for each partition, in a task.

A partition is written from its beginning each time that Spark tries it, so what an attempt wrote
before it failed is written again: at least once, each key in the order of its rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from shardline.consumer.logs import log_to_stderr
from shardline.services.put.stream import PutStream, connect_to_put
from shardline.services.put.writer import Writer
from shardline.spark.sink.rows import RowEntries

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from shardline.spark.options import Connection
    from shardline.spark.sink.options import Sink


@dataclass
class PartitionWritten(WriterCommitMessage):
    """What a task reports of its partition."""

    records: int
    refused: int


class RowWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
        """Write the rows of a partition; return when the stream has accepted all of them."""
        return write_partition(self._sink, iterator)


class StreamRowWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each batch of a streaming query."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
        """Write the rows of a partition; return when the stream has accepted all of them."""
        return write_partition(self._sink, iterator)


def write_partition(sink: Sink, batches: Iterator[pa.RecordBatch]) -> PartitionWritten:
    """Write the rows of a partition in their order."""
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # our messages are whole in one line
    log_to_stderr()
    rows = RowEntries(sink)
    stream = _stream(sink.connection)
    writer = Writer(
        stream,
        aggregate=sink.aggregate,
        give_up_seconds=sink.give_up_seconds,
        owns_stream=False,
    )
    try:
        with writer:
            for batch in batches:
                writer.put_all(rows.entries(batch))
            result = writer.flush()
    except BaseException:
        _stream.cache_clear()
        stream.close()
        raise
    return PartitionWritten(result.records, result.refused)


@lru_cache(maxsize=4)
def _stream(connection: Connection) -> PutStream:
    """Return a stream to write to: kept, with what it learnt, for later tasks of this process."""
    return connect_to_put(connection.address, connection.access)
