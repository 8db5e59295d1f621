"""`spark.read`: a bounded range of a stream, each shard in a task, parents before children."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader

from shardline.core.lineage import trace
from shardline.core.offsets import Offset, Range
from shardline.core.planning import FORWARD_RECORDS, Look, settle
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime
from shardline.errors import ConfigurationError
from shardline.spark.driver.tip_finder import Lookout
from shardline.spark.executor.reader import ShardRange, service_for
from shardline.spark.executor.rows import ShardRanges, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from shardline.services.port import StreamService
    from shardline.spark.options import Options

_THREADS: Final = 16


class ShardedReader(DataSourceReader):
    """Reads what lies between two positions once.

    Rows come in the order of the partitions: every parent's partition lies before its children's.
    """

    def __init__(self, options: Options, item: StructType | None = None) -> None:
        if options.end == TRIM_HORIZON:
            raise ConfigurationError("option endingPosition: write latest, or a time")
        self._options = options
        self._item = item

    def partitions(self) -> Sequence[InputPartition]:
        """Plan where each shard's range ends, and return the ranges parents first."""
        ranges = plan_once(service_for(self._options.connection), self._options)
        size = self._options.shards_per_task
        return [ShardRanges(tuple(ranges[at : at + size])) for at in range(0, len(ranges), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's ranges."""
        return rows_of(self._options, partition, self._item)


def plan_once(service: StreamService, options: Options) -> list[ShardRange]:
    """Return the range of every shard between the two positions, parents first."""
    listed = service.list_shards()
    if not listed:
        return []
    lookout = Lookout(service)
    now = lookout.now(listed[-1].id)
    described = service.describe()
    ground = settle(
        options.resume or Offset(options.start),
        listed,
        created_at=described.created_at,
        now=now,
        retention=timedelta(seconds=described.retention_seconds),
    )
    until = options.end.time if isinstance(options.end, AtTime) else now + timedelta(seconds=1)
    order = [k for k in trace(listed).standings if k in ground.standpoints]
    looks = {
        shard.id: Look(
            shard.id, ground.standpoints[shard.id], FORWARD_RECORDS, None, closed=shard.closed
        )
        for shard in listed
        if shard.id in ground.standpoints and ground.standpoints[shard.id].position != LATEST
    }

    def plan(shard_id: str) -> ShardRange | None:
        look = looks.get(shard_id)
        return None if look is None else _range(lookout, look, options, until)

    with ThreadPoolExecutor(_THREADS) as pool:
        return [item for item in pool.map(plan, order) if item is not None]


def _range(lookout: Lookout, look: Look, options: Options, until: datetime) -> ShardRange | None:
    # A closed shard that is wanted whole needs no look: its end is where the service says so.
    bound = until if isinstance(options.end, AtTime) or not look.closed else None
    sight = lookout.look(look, until=bound).sight
    item = Range(look.standpoint.position, sight.upto, sight.as_of)
    return None if item.empty else ShardRange(look.shard_id, item)
