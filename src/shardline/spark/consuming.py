"""Runs a consumer on Spark: one query from the source, under leases, into the consumer's sink."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shardline.consumer.dead_letters import open_dead_letters
from shardline.consumer.policies import DeadLetter
from shardline.errors import ConfigurationError
from shardline.services.addresses import parse_address
from shardline.spark.executor.sink import FORMAT, sink_for
from shardline.spark.metrics import Metrics
from shardline.spark.options import DYNAMODB_STREAMS, KINESIS, read_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from shardline.consumer.consumer import ShardConsumer

logger = logging.getLogger(__name__)

DEFAULT_LEASE_TABLE: Final = "sqlite:///shardline-leases.db"
"""For the workers of one machine that are started in the same folder."""

_POLL_SECONDS: Final = 0.1
_END_SECONDS: Final = 10.0
_LEAVE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a consumption ended."""

    handed_back: bool
    """Every lease was released with all that was acknowledged: nothing will be repeated."""
    failure: str | None
    """What the query met, in one line."""


class Consumption:
    """A consumer that runs. End it with `stop`, and the others need not wait for its leases."""

    def __init__(self, query: StreamingQuery, workplace: Path) -> None:
        self.query = query
        self.metrics = Metrics(query, workplace)
        self._workplace = workplace
        self._stop_file = stop_file_in(workplace)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the query ends by itself; False if it still runs. Raises what it met."""
        if timeout_seconds is None:
            self.query.awaitTermination()
            return True
        return bool(self.query.awaitTermination(timeout_seconds))  # type: ignore[arg-type]

    def stop(self, grace_seconds: float = 30.0, abandon: threading.Event | None = None) -> Stopped:
        """End after the batch that runs, checkpoint it, and give every lease back.

        A batch that takes longer than the grace, or `abandon`, is broken off: it is not
        acknowledged, and whoever gets its shards repeats it.
        """
        abandon = abandon or threading.Event()
        deadline = time.monotonic() + grace_seconds
        if self.query.isActive:
            self._stop_file.touch()
        while self._stop_file.exists() and self.query.isActive and time.monotonic() < deadline:
            if abandon.wait(_POLL_SECONDS):
                break
        handed_back = self.query.isActive and not self._stop_file.exists()
        self._end_query(_LEAVE_SECONDS if abandon.is_set() else _END_SECONDS)
        failure = None if handed_back else self.query.exception()
        shutil.rmtree(self._workplace, ignore_errors=True)
        return Stopped(handed_back, reason_of(str(failure)) if failure else None)

    def _end_query(self, seconds: float) -> None:
        """Stop the query, and wait so long for its task; it ends with this process at the latest.

        Its leases are given back by the source's own process, which Spark ends either way.
        """
        ending = threading.Thread(target=self.query.stop, daemon=True)
        ending.start()
        ending.join(seconds)
        if ending.is_alive():
            logger.warning("the query does not end by itself: it is left to Spark")


def consume(
    spark: SparkSession | Callable[[], SparkSession],
    consumer: ShardConsumer,
    *,
    stream: str,
    app: str | None = None,
    lease_table: str | None = None,
    lease_endpoint_url: str | None = None,
    worker_name: str | None = None,
    lease_seconds: int = 10,
    start: str = "trim_horizon",
    ephemeral: bool = False,
    checkpoint: str | None = None,
    max_records_per_batch: int = 10_000,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    role_arn: str | None = None,
    fail_on_data_loss: bool = True,
) -> Consumption:
    """Run a consumer on a stream, and return while it runs.

    `spark` may also be a function that starts it: asked for when all else is found to be right.

    Workers of the same `app` share the stream through the lease table. `ephemeral` needs neither:
    it begins at the latest point, alone, and remembers nothing. A `checkpoint` folder is needed
    only to go on with the very batch that a killed driver had planned; the lease table alone is
    enough to lose nothing.
    """
    if not ephemeral and app is None:
        raise ConfigurationError("name the app whose workers share the stream: app=…")
    if ephemeral and checkpoint is not None:
        raise ConfigurationError("ephemeral remembers nothing: leave the checkpoint out")
    where = parse_address(stream)
    query_name = f"{app or 'ephemeral'} on {stream}"
    workplace = Path(tempfile.mkdtemp(prefix="shardline-"))
    given: dict[str, Any] = {
        "region": region,
        "endpointUrl": endpoint_url,
        "profile": profile,
        "roleArn": role_arn,
        "startingPosition": "latest" if ephemeral else start,
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        "maxRecordsPerBatch": max_records_per_batch,
        "withFence": "true",
        "stopFile": stop_file_in(workplace),
    }
    if not ephemeral:
        given |= {
            "appName": app,
            "leaseTable": _absolute(lease_table or DEFAULT_LEASE_TABLE),
            "leaseEndpointUrl": lease_endpoint_url,
            "workerName": worker_name,
            "leaseSeconds": lease_seconds,
        }
    given["streamARN" if where.stream_arn else _NAME[where.service]] = (
        where.stream_arn or where.name
    )
    options = {name: str(value) for name, value in given.items() if value is not None}
    format_name = KINESIS if where.service == "kinesis" else DYNAMODB_STREAMS
    try:
        read = read_options(format_name, options)  # a mistake shows here, before Spark is asked
        if isinstance(consumer.failure, DeadLetter):
            open_dead_letters(consumer.failure.to, read.connection.access)
        spark = spark() if callable(spark) else spark
        _refuse_speculation(spark)
        _refuse_twice(spark, query_name)
    except BaseException:
        shutil.rmtree(workplace)
        raise
    spark.dataSource.register(sink_for(consumer, read.connection, read.leases, workplace))
    query = (
        spark.readStream.format(format_name)
        .options(**options)
        .load()
        .writeStream.format(FORMAT)
        .queryName(query_name)
        .option("checkpointLocation", checkpoint or str(workplace / "checkpoint"))
        .start()
    )
    return Consumption(query, workplace)


def reason_of(failure: str) -> str:
    """Return what matters of Spark's report of a failure: the last line of the Python error in it.

    Without one, the report's own first line.
    """
    report = re.split(r"\n\s+at |\nJVM stacktrace|\nDriver stacktrace", failure)[0]
    lines = [line for line in report.splitlines() if line.strip()]
    _, traced, error = report.rpartition("Traceback (most recent call last):")
    if traced:
        lines = [x for x in error.splitlines() if x.strip() and not x.startswith(" ")] or lines
        return lines[0].strip()
    return re.sub(r"^\[STREAM_FAILED\] .*? terminated with exception: ", "", lines[0]).strip()


def _refuse_speculation(spark: SparkSession) -> None:
    if spark.conf.get("spark.speculation", "false") == "true":
        raise ConfigurationError(
            "spark.speculation is on: two attempts of a task would deliver side by side. Set it "
            "to false"
        )


def _refuse_twice(spark: SparkSession, name: str) -> None:
    if any(query.name == name for query in spark.streams.active):
        raise ConfigurationError(
            f"{name} runs in this Spark session already: one consumer for each app and stream. "
            "Another worker is another Spark application; another use of the stream is another app"
        )


def stop_file_in(workplace: Path) -> Path:
    """Return the file that asks the source to plan no more."""
    return workplace / "stop"


def _absolute(lease_table: str) -> str:
    """Make the path of a SQLite file whole: Spark's processes work in folders of their own."""
    prefix = "sqlite:///"
    if not lease_table.startswith(prefix):
        return lease_table
    return prefix + str(Path(lease_table.removeprefix(prefix)).absolute())


_NAME: Final = {"kinesis": "streamName", "dynamodb": "tableName"}
