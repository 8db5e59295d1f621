"""`shardline.spark.consume`: a consumer on Spark, from keywords to running workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.consumer.launch_options import job_of
from shardline.spark.workers import start_workers, with_its_module
from shardline.tables.consumers import change_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

    from shardline.consumer.consumer import ShardConsumer
    from shardline.consumer.launch import RunningConsumer


def consume(
    spark: SparkSession | Callable[[], SparkSession],
    consumer: ShardConsumer,
    *,
    stream: str | Sequence[str],
    app: str | None = None,
    lease_table: str | None = None,
    tasks: int | None = None,
    start: str | datetime = "trim_horizon",
    **options: Any,
) -> RunningConsumer:
    """Run a consumer on one or more streams, and return while it runs.

    Workers of the same `app` share the streams through the lease table, from any number of Spark
    applications. `tasks` workers are placed; on a local master the default is its cores. `start` is
    where a new app begins. `spark` may also be a function that starts it, called when all else is
    found to be right. Further options are those of `job_of`.
    """
    job = job_of(
        consumer,
        with_its_module,
        streams=(stream,) if isinstance(stream, str) else tuple(stream),
        app=app,
        lease_table=lease_table,
        start=start,
        change_of=change_reader(consumer, stream),
        **options,
    )
    return start_workers(spark() if callable(spark) else spark, job, tasks)
