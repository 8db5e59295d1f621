"""Places the workers of a consumer in Spark: each is a job of one task that runs until stopped.

One job for each worker: a failure ends no other worker, and no limit of Spark's on task failures
is relied on, since the launcher starts a worker again by itself. The job maps the one partition of
an RDD, which every Spark has and which needs no pandas; over Spark Connect, which has no RDDs but
needs pandas anyway, it maps the one row of a DataFrame in Arrow.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import sys
import uuid
from functools import partial
from typing import TYPE_CHECKING

from shardline.consumer.launch import RunningConsumer
from shardline.errors import ConfigurationError
from shardline.leases.address import table_is_local
from shardline.spark.executor.worker_task import keep_in_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from shardline.consumer.job import Job

logger = logging.getLogger(__name__)


def start_workers(spark: SparkSession, job: Job, tasks: int | None = None) -> RunningConsumer:
    """Start the workers of a job in Spark tasks, and return while they run."""
    master = str(spark.conf.get("spark.master", "") or "")
    local = master.startswith("local")
    if not local and table_is_local(job.leases.address):
        raise ConfigurationError(
            f"{job.leases.name} is a table of one machine, and {master} has others: "
            "use dynamodb://TABLE or postgresql://HOST/DATABASE"
        )
    if spark.conf.get("spark.speculation", "false") == "true":
        raise ConfigurationError(
            "spark.speculation is on: Spark would run workers twice. Set it to false"
        )
    if spark.conf.get("spark.python.worker.killOnIdleTimeout", "false") == "true":
        raise ConfigurationError(
            "spark.python.worker.killOnIdleTimeout is on: Spark would kill a worker whose streams "
            "are quiet. Set it to false"
        )
    if tasks is None:
        if not local:
            raise ConfigurationError(f"say how many workers to place on {master}: tasks=N")
        tasks = _local_cores(master)
    elif local and tasks >= _local_cores(master):
        logger.info("%d workers take every core of %s: other jobs of it wait", tasks, master)
    placement = _Placement(spark)
    return RunningConsumer(job, tasks, placement.place, placement.cancel)


class _Placement:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"shardline-{uuid.uuid4().hex[:12]}"
        self._remote = "connect" in type(spark).__module__

    def place(self, job: Job, index: int, attempt: int) -> None:
        """Run one worker as a job of its own, until it ends."""
        spark = self._spark
        work = partial(keep_in_task, pickle.dumps(job), index, attempt)
        if self._remote:
            spark.addTag(self._tag)
            rows = spark.range(0, 1, 1, 1).mapInArrow(_in_arrow(work), "failure string")
            failures = [row.failure for row in rows.collect()]
        else:
            context = spark.sparkContext
            description = f"worker {index} of {job.app}"
            context.setJobGroup(self._tag, description, interruptOnCancel=True)
            failures = context.parallelize([0], 1).mapPartitions(lambda _: work()).collect()
        for failure in filter(None, failures):
            kind, _, text = failure.partition(": ")
            raise (ConfigurationError if kind == "ConfigurationError" else RuntimeError)(text)

    def cancel(self) -> None:
        """Break every worker's job off: Spark kills a Python task a moment later."""
        if self._remote:
            self._spark.interruptTag(self._tag)
        else:
            self._spark.sparkContext.cancelJobGroup(self._tag)


def _in_arrow(
    work: Callable[[], Iterator[str]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def in_arrow(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in rows:
            pass
        for text in work():
            yield pa.RecordBatch.from_pydict({"failure": pa.array([text], pa.string())})

    return in_arrow


def _local_cores(master: str) -> int:
    """Return how many tasks a local master runs side by side."""
    match = re.match(r"local(?:\[(\*|\d+).*)?$", master)
    count = match[1] if match else "1"
    return (os.cpu_count() or 1) if count == "*" else int(count or 1)


def pickled(consumer: object) -> bytes:
    """Pickle a consumer. Executors need its module, unless it is that of the main program."""
    from pyspark import cloudpickle

    result: bytes = cloudpickle.dumps(consumer)  # type: ignore[no-untyped-call]
    return result


def with_its_module(consumer: object) -> bytes:
    """Pickle a consumer with the code of its module: executors elsewhere have no such file."""
    from pyspark import cloudpickle

    module = sys.modules[type(consumer).__module__]
    if module.__name__ == "__main__":  # always by value
        return pickled(consumer)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        return pickled(consumer)
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
