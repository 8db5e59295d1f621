"""The rows of one task that reads segments of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from shardline.services.connection import connect_table
from shardline.services.snapshot_stream import segment_name, table_rows
from shardline.services.table_scan import ScanPace, TableScan
from shardline.spark.executor.columns import arrow_schema, with_origin
from shardline.spark.executor.images import with_typed_images
from shardline.spark.option_names import DYNAMODB_STREAMS
from shardline.spark.options import Connection  # noqa: TC001 - pickled with it

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class TaskSegments(InputPartition):
    """What one task reads of a table: whole segments, one after the other."""

    connection: Connection
    segments: tuple[int, ...]
    of: int
    """In how many segments the table is read."""
    units_per_second: float | None = None
    """The most read capacity units that this task uses; None for no limit."""


def rows_of_segments(
    task: TaskSegments, item: StructType | None = None
) -> Iterator[pa.RecordBatch]:
    """Read segments into the columns of the format, images as items if a type is given."""
    connection = task.connection
    scan = connect_table(connection.address, connection.access, task.of)
    pace = ScanPace(task.units_per_second)
    schema = arrow_schema(DYNAMODB_STREAMS)
    try:
        for segment in task.segments:
            for records in _records(scan, segment, pace):
                rows = with_origin(
                    records,
                    schema,
                    stream=connection.name,
                    shard_id=segment_name(segment, task.of),
                )
                yield rows if item is None else with_typed_images(rows, item)
    finally:
        scan.close()


def _records(scan: TableScan, segment: int, pace: ScanPace) -> Iterator[pa.RecordBatch]:
    """Yield the pages of a segment to its end."""
    after: list[str] | None = None
    ordinal = 1
    while True:
        page = scan.patient_page(segment, after, pace)
        if page.items:
            yield table_rows(scan, page, ordinal)
        ordinal += len(page.items)
        after = page.rest
        if after is None:
            return
