"""The rows of one task: its ranges read, aggregated records taken apart, columns as Spark wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from shardline.core.positions import After
from shardline.services.aggregation import split_aggregated
from shardline.spark.executor.columns import arrow_schema, with_origin
from shardline.spark.executor.images import with_typed_images
from shardline.spark.executor.range_reader import ShardRange  # noqa: TC001 - pickled with it
from shardline.spark.executor.table_rows import TaskSegments, rows_of_segments
from shardline.spark.executor.task_reader import access_to, read_ranges
from shardline.spark.executor.total_order import merged_rows
from shardline.spark.option_names import KINESIS
from shardline.spark.options import Connection  # noqa: TC001 - pickled with it

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from shardline.spark.options import Options


@dataclass
class TaskRanges(InputPartition):
    """What one task reads: ranges of one shard or several of a stream, all at once."""

    connection: Connection
    ranges: tuple[ShardRange, ...] = ()


def rows_of(
    options: Options, partition: InputPartition, item: StructType | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a task's ranges into the columns of the format, images as items if a type is given."""
    if isinstance(partition, TaskSegments):
        yield from rows_of_segments(partition, item)
        return
    if not isinstance(partition, TaskRanges):
        raise TypeError(f"not a partition of this source: {partition!r}")
    schema = arrow_schema(options.format)
    stream = partition.connection.name
    apart = options.format == KINESIS and options.deaggregate
    ranges = {item.shard_id: item for item in partition.ranges}

    def rows_of_page(shard_id: str, page: pa.RecordBatch) -> pa.RecordBatch:
        records = _split(page, ranges[shard_id], options) if apart else page
        rows = with_origin(records, schema, stream=stream, shard_id=shard_id)
        return rows if item is None else with_typed_images(rows, item)

    access = access_to(partition.connection)
    if options.total_order:
        yield from merged_rows(access, partition.ranges, rows_of_page)
        return
    for shard_id, page in read_ranges(access, partition.ranges):
        yield rows_of_page(shard_id, page)


def _split(page: pa.RecordBatch, item: ShardRange, options: Options) -> pa.RecordBatch:
    """Return a page with its aggregated records split, from the place on where the range begins."""
    after = item.range.after
    inside = isinstance(after, After) and after.sub_sequence not in (None, -1)
    return split_aggregated(
        page,
        after if isinstance(after, After) and inside else None,
        shard_range=item.hash_range if options.drops_strays else None,
        verify=options.verify_checksums,
    )
