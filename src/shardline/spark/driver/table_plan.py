"""Plans the batches in which a query reads a table, before the changes of that table.

The first batch is empty: it writes down where each shard of the stream is pinned, and in how many
segments the table is read. Each further batch holds whole segments, until none is left. Then the
stream is read from the pins on. Spark's checkpoint holds all of it, so that a restart goes on with
the segment after the last committed one.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from shardline.core.table_progress import TableProgress, segments_for
from shardline.services.connection import connect_table
from shardline.services.snapshot_stream import MOST_SEGMENTS
from shardline.spark.driver.task_plan import task_count
from shardline.spark.executor.table_rows import TaskSegments

if TYPE_CHECKING:
    from shardline.core.offsets import Offset
    from shardline.spark.options import Connection, Options


def next_segments(committed: Offset, max_records: int | None) -> Offset | None:
    """Return the batch of segments after a committed one; None if the table is not read now."""
    table = committed.table
    if table is None or not table.resolved or table.finished:
        return None
    return replace(committed, table=table.next(max_records))


def with_segments(
    committed: Offset, planned: Offset, connection: Connection, options: Options
) -> Offset:
    """Return the first plan with the segments of the table, if the query starts with the table."""
    if committed.table is None or committed.table.resolved:
        return planned
    scan = connect_table(connection.address, connection.access)
    try:
        items, size_bytes = scan.size()
    finally:
        scan.close()
    segments = options.snapshot_segments or segments_for(
        items,
        size_bytes,
        max_items=options.max_records_per_batch,
        tasks=os.cpu_count() or 2,
        most=MOST_SEGMENTS,
    )
    return replace(planned, table=TableProgress(segments, items))


def segment_tasks(
    committed: Offset, planned: Offset, connection: Connection, options: Options
) -> list[TaskSegments]:
    """Return the tasks that read the segments of a planned batch; none if it has no segments."""
    before, table = committed.table, planned.table
    if table is None or before is None or before.done == table.done:
        return []
    segments = range(before.done, table.done)
    count = task_count(len(segments), options.shards_per_task, os.cpu_count() or 2)
    if options.total_order:
        count = 1
    units = options.snapshot_units_per_second
    return [
        TaskSegments(
            connection,
            tuple(segments[n::count]),
            table.segments,
            None if units is None else units / count,
        )
        for n in range(count)
    ]
