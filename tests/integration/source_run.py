"""A query of the DataFrame source without Spark: what Spark asks for, in the order it asks."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from shardline.core import query_offsets
from shardline.spark.driver.stream_plans import StreamPlans
from shardline.spark.executor.rows import rows_of
from shardline.spark.options import Options, read_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from pyspark.sql.datasource import InputPartition

    from shardline.core.offsets import Offset

Row = dict[str, Any]
_DEADLINE_SECONDS = 120.0


class SourceRun:
    """Runs batch after batch until everything is delivered that had arrived.

    `log` holds the offsets as Spark's log does, so that another run can go on with it.
    """

    def __init__(self, format_name: str, given: dict[str, str], log: list[str] | None = None):
        self.options: Options = read_options(format_name, given)
        self.log: list[str] = [] if log is None else log
        names = [connection.name for connection in self.options.connections]
        if not self.log:
            first = dict.fromkeys(names, self.options.first_offset)
            self.log.append(json.dumps(query_offsets.to_json(first)))
        self._names = names
        self._plans = StreamPlans(self.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._plans.close()

    def offset(self) -> Offset:
        """Return the last committed offset of the first stream."""
        return self._offsets(self.log[-1])[self._names[0]]

    def batches(self) -> Iterator[list[list[Row]]]:
        """Yield each batch as the rows of its partitions, and commit it."""
        self._plans.set_target()
        while (batch := self.step()) is not None:
            yield batch

    def until(self, count: int) -> list[list[list[Row]]]:
        """Run until so many rows came, and return the batches that held some."""
        batches: list[list[list[Row]]] = []
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while sum(len(part) for batch in batches for part in batch) < count:
            assert time.monotonic() < deadline, f"{count} rows did not come"
            batch = self.step()
            if batch:
                batches.append(batch)
        return batches

    def rows(self, batch: int) -> list[list[Row]]:
        """Read a batch that stands in the log."""
        start, end = (self._offsets(text) for text in self.log[batch : batch + 2])
        return [self._read(task) for task in self._plans.partitions(start, end)]

    def step(self) -> list[list[Row]] | None:
        """Run the next batch; None if there is none now."""
        committed = self._offsets(self.log[-1])
        most = self.options.max_records_per_batch
        planned = self._plans.ask(committed, most, all_available=False)
        if planned is None:
            return None
        self.log.append(json.dumps(query_offsets.to_json(planned)))
        return self.rows(len(self.log) - 2)

    def _read(self, task: InputPartition) -> list[Row]:
        return [row for rows in rows_of(self.options, task) for row in _as_rows(rows)]

    def _offsets(self, text: str) -> dict[str, Offset]:
        return query_offsets.from_json(json.loads(text), self._names, self.options.first_offset)


def _as_rows(rows: pa.RecordBatch) -> list[Row]:
    listed: list[Row] = pa.Table.from_batches([rows]).to_pylist()
    return listed
