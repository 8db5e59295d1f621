"""The rows of one task: its ranges read, aggregated records taken apart, columns as Spark wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from shardline.services.aggregation import split_aggregated
from shardline.spark.executor.columns import arrow_schema, with_origin
from shardline.spark.executor.fencing import fenced
from shardline.spark.executor.images import typed_images, with_typed_images
from shardline.spark.executor.reader import ShardRange, read_ranges
from shardline.spark.options import KINESIS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from shardline.spark.options import Options


@dataclass
class ShardRanges(InputPartition):
    """What one task reads: one range or several, one after the other."""

    ranges: tuple[ShardRange, ...]


def rows_of(
    options: Options, partition: InputPartition, item: StructType | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a task's ranges into the columns of the format, images as items if a type is given."""
    if not isinstance(partition, ShardRanges):
        raise TypeError(f"not a partition of this source: {partition!r}")
    schema = arrow_schema(options.format)
    rows = _rows(options, partition.ranges, schema)
    if item is not None:
        rows = ((shard_id, with_typed_images(records, item)) for shard_id, records in rows)
        schema = typed_images(schema, item)
    if options.with_fence:
        yield from fenced(rows, partition.ranges, schema)
    else:
        for _, records in rows:
            yield records


def _rows(
    options: Options, ranges: tuple[ShardRange, ...], schema: pa.Schema
) -> Iterator[tuple[str, pa.RecordBatch]]:
    stream = options.connection.address.partition("://")[2]
    apart = options.format == KINESIS and options.deaggregate
    for shard_id, page in read_ranges(options.connection, ranges):
        records = split_aggregated(page, verify=options.verify_checksums) if apart else page
        yield shard_id, with_origin(records, schema, stream=stream, shard_id=shard_id)
