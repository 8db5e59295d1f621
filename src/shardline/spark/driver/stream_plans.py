"""The plans of a query: each of its streams is planned by itself, and a batch holds all of them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from shardline.spark.driver.stream_plan import StreamPlan
from shardline.spark.driver.table_plan import next_segments, segment_tasks, with_segments
from shardline.spark.driver.task_plan import tasks
from shardline.spark.executor.rows import TaskRanges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.core.offsets import Offset
    from shardline.spark.executor.table_rows import TaskSegments
    from shardline.spark.options import Options

_POLL_SECONDS: Final = 0.02


class StreamPlans:
    """Answers Spark's questions for all streams of a query, by name."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ends = False
        """True if the query ends once everything is read that had arrived."""
        self._plans = {each.name: StreamPlan(each, options) for each in options.connections}

    def set_target(self) -> None:
        """Count only what has arrived by now from here on, so that the query can end."""
        self._ends = True
        for plan in self._plans.values():
            plan.set_target()

    def ask(
        self, committed: Mapping[str, Offset], max_records: int | None, *, all_available: bool
    ) -> dict[str, Offset] | None:
        """Return the batch after a committed one; None if there is nothing to put into it now.

        The limit of a batch is shared equally among the streams.
        """
        share = None if max_records is None else max(1, max_records // len(committed))
        tables = {k: next_segments(offset, share) for k, offset in committed.items()}
        segments = {k: offset for k, offset in tables.items() if offset is not None}
        if segments:  # tables come before all changes
            return {**committed, **segments}
        after = {name: plan.runner_after(committed[name]) for name, plan in self._plans.items()}
        if len(after) == 1:
            ((name, (runner, start)),) = after.items()
            planned = runner.ask(start, max_records, all_available=all_available)
            return None if planned is None else self._with_segments(committed, {name: planned})
        for runner, start in after.values():
            runner.pose(start, share, all_available=all_available)
        while True:
            polled = {name: runner.poll() for name, (runner, _) in after.items()}
            planned_ones = {name: offset for name, (offset, _) in polled.items() if offset}
            waits = [name for name, (_, waits) in polled.items() if waits]
            # A stream that has its next records ready need not wait for one that is at its tip. But
            # where a stream begins is resolved for all of them at once.
            resolved = all(after[name][1].created_at is not None for name in waits)
            enough = planned_ones and resolved and self._ends and not all_available
            if not waits or enough:
                if not planned_ones:
                    return None
                return {**committed, **self._with_segments(committed, planned_ones)}
            time.sleep(_POLL_SECONDS)

    def offered(self) -> dict[str, Offset] | None:
        """Return the newest plan; None if a stream has none yet."""
        found = {name: plan.offered for name, plan in self._plans.items()}
        offered = {name: offset for name, offset in found.items() if offset is not None}
        return offered if len(offered) == len(found) else None

    def partitions(
        self, committed: Mapping[str, Offset], planned: Mapping[str, Offset]
    ) -> list[TaskRanges | TaskSegments]:
        """Return what is to be read of a planned batch, or raise if it expired meanwhile.

        A task reads shards of one stream, and in total order all of them.
        """
        options = self._options
        cores = max(1, (os.cpu_count() or 2) // len(self._plans))
        partitions: list[TaskRanges | TaskSegments] = []
        for name, plan in self._plans.items():
            if planned[name] == committed[name]:
                continue  # nothing of this stream is in the batch
            if segments := segment_tasks(committed[name], planned[name], plan.connection, options):
                partitions += segments
                continue
            connection, ranges = plan.ranges(committed[name], planned[name])
            if options.total_order:
                partitions += [TaskRanges(connection, ranges)] if ranges else []
                continue
            shared = tasks(ranges, options.shards_per_task, cores)
            partitions += [TaskRanges(connection, task) for task in shared]
        return partitions

    def _with_segments(
        self, committed: Mapping[str, Offset], planned: Mapping[str, Offset]
    ) -> dict[str, Offset]:
        return {
            name: with_segments(
                committed[name], offset, self._plans[name].connection, self._options
            )
            for name, offset in planned.items()
        }

    def close(self) -> None:
        """Stop the threads and close the connections."""
        for plan in self._plans.values():
            plan.close()
