"""What the Spark source moves, beside a source written with boto3; and what a small batch costs.

`python -m bench.spark_source` prints the table. All sources read the same stream of one embedded
service, in turns, so that whatever else the machine does slows all of them.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3

from bench.figures import Figure, print_plainly, ratios, say
from bench.spark_contenders import Boto3Source, ReadySource
from bench.spark_service import SHARDS, TRICKLE, Served, backlog_of, served
from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.spark.consumers import consume
from shardline.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

ROUNDS: Final = 3
RECORDS: Final = {100: 320_000, 1_000: 160_000}
QUICK_RECORDS: Final = {1_000: 80_000}
TRICKLED: Final = 60
BACKLOG_LIMIT: Final = 50_000


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure everything."""
    records = QUICK_RECORDS if quick else RECORDS
    rounds = 2 if quick else ROUNDS
    spark = session("bench", "local[2]", spark__ui__showConsoleProgress="false")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        say("filling the streams")
        with served(records) as service:
            measured = [
                figure
                for size, count in records.items()
                for figure in throughput(spark, service, size, count, rounds)
            ]
            size = max(records)
            measured.append(consumed(spark, service, size, records[size]))
            measured.append(backlog(spark, service, size, records[size]))
            return measured + trickle(spark, service, TRICKLED // 3 if quick else TRICKLED)
    finally:
        spark.stop()


# --- throughput ---------------------------------------------------------------------------------


def throughput(
    spark: SparkSession, service: Served, size: int, count: int, rounds: int
) -> list[Figure]:
    spark.dataSource.register(Boto3Source)
    spark.dataSource.register(ReadySource)
    stream = backlog_of(size)
    theirs = spark.read.format("boto3-kinesis").option("streamName", stream)
    ready = spark.read.format("ready-arrow").option("size", str(size))
    sources = {
        "ours": loaded(spark, service, stream, streaming=False),
        "boto3": theirs.option("endpointUrl", service.endpoint_url).load(),
        "ready": ready.option("records", str(count)).option("shards", str(SHARDS)).load(),
        "cbor": loaded(spark, service, stream, streaming=False, wire="cbor"),
    }
    for name, rows in sources.items():
        say(f"{size:,} B: {name} is counted")
        assert rows.count() == count, name  # and warm
    taken: dict[str, list[float]] = {name: [] for name in (*sources, "parquet")}
    for n in range(rounds):
        for name, rows in sources.items():
            say(f"{size:,} B: {name} into noop, round {n + 1} of {rounds}")
            taken[name].append(seconds(rows, "noop"))
        say(f"{size:,} B: ours into parquet, round {n + 1} of {rounds}")
        judge = (lambda out: service.judge(stream, out)) if n == 0 else None
        taken["parquet"].append(seconds(sources["ours"], "parquet", judge))
    noop = f"source → noop, {size} B"
    rates = tuple(count / each for each in taken["ours"])
    return [
        Figure(noop, "boto3 in a Python data source", ratios(taken["boto3"], taken["ours"]),
               target=3.0),
        Figure(noop, "Spark with ready Arrow batches", ratios(taken["ready"], taken["ours"]),
               target=0.5, held_back="the service and JSON with base64; see CBOR"),
        Figure(f"{noop}, in CBOR", "Spark with ready Arrow batches",
               ratios(taken["ready"], taken["cbor"]), target=0.5),
        Figure(noop, "", rates, unit="/s"),
        Figure(noop, "", tuple(rate * size / 1e6 for rate in rates), unit="MB/s"),
        Figure(f"source → parquet, {size} B", "", tuple(count / each for each in taken["parquet"]),
               unit="/s", note="judged by the promise checker"),
    ]  # fmt: skip


def loaded(
    spark: SparkSession, service: Served, stream: str, *, streaming: bool, wire: str = "json"
) -> DataFrame:
    reader = (spark.readStream if streaming else spark.read).format("kinesis")
    reader = reader.option("streamName", stream).option("endpointUrl", service.endpoint_url)
    reader = reader.option("wire", wire)
    return reader.option("startingPosition", "trim_horizon").load()


def seconds(rows: DataFrame, sink: str, judge: Callable[[Path], None] | None = None) -> float:
    """Read everything into a sink, and return how long that took."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        started = time.perf_counter()
        rows.write.format(sink).mode("overwrite").save(str(out))
        taken = time.perf_counter() - started
        if judge is not None:
            judge(out)
        return taken


class Counting(ShardConsumer):
    """Gets its records as Arrow columns, and counts them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0

    def process(self, batch: ShardBatch) -> None:
        self._count += len(batch)
        Path(self._folder, f"{batch.shard_id}.count").write_text(str(self._count))


def consumed(spark: SparkSession, service: Served, size: int, count: int) -> Figure:
    """Return how fast a consumer gets a backlog, from the start of its query on."""
    say("a consumer reads the backlog")
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        running = consume(
            spark,
            Counting(folder),
            stream=f"kinesis://{backlog_of(size)}",
            app="bench",
            lease_table=f"sqlite:///{folder}/leases.db",
            endpoint_url=service.endpoint_url,
        )
        while sum(int(path.read_text()) for path in Path(folder).glob("*.count")) < count:
            assert running.running
            time.sleep(0.02)
        taken = time.perf_counter() - started
        running.stop()
    return Figure(f"source → consumer, {size} B", "", (count / taken,), unit="/s",
                  note="with its start, and its leases")  # fmt: skip


def backlog(spark: SparkSession, service: Served, size: int, count: int) -> Figure:
    """Return the size of the largest batch in which a backlog is read under a limit."""
    say("a backlog in bounded batches")
    sizes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        reader = spark.readStream.format("kinesis").option("streamName", backlog_of(size))
        reader = reader.option("endpointUrl", service.endpoint_url)
        query = (
            reader.option("startingPosition", "trim_horizon")
            .option("maxRecordsPerBatch", str(BACKLOG_LIMIT))
            .load()
            .writeStream.foreachBatch(lambda batch, _: sizes.append(batch.count()))
            .option("checkpointLocation", folder)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert sum(sizes) == count
    return Figure("largest batch of a backlog", f"{len(sizes)} batches", (float(max(sizes)),),
                  unit="", target=float(BACKLOG_LIMIT), at_most=True)  # fmt: skip


# --- small batches ------------------------------------------------------------------------------


def trickle(spark: SparkSession, service: Served, count: int) -> list[Figure]:
    """Put a record now and then, and tell how long it took to arrive, and what a batch cost."""
    delays: list[float] = []

    def received(batch: DataFrame, _: int) -> None:
        rows, now = batch.collect(), time.time()
        delays.extend(now - float(row.data) for row in rows)

    say("a trickle into foreachBatch")
    batches = trickled(spark, service, count, lambda rows: rows.foreachBatch(received))
    say("a trickle into noop")
    plain = trickled(spark, service, count, lambda rows: rows.format("noop"))
    delays = sorted(delays[10:])  # the first ones wait for Spark to start
    return [
        Figure("put to foreachBatch, p50", "trickle", (statistics.median(delays),), "s",
               target=0.5, at_most=True),
        Figure("put to foreachBatch, p99", "trickle", (delays[int(len(delays) * 0.99)],), "s"),
        Figure("a batch of one record", "into noop", plain, "ms", target=60.0, at_most=True,
               held_back="Spark's own logs, its job, and two Python processes on few cores"),
        Figure("a batch of one record", "with foreachBatch and its collect()", batches, "ms"),
    ]  # fmt: skip


def trickled(
    spark: SparkSession, service: Served, count: int, sink: Callable[[Any], Any]
) -> tuple[float, ...]:
    """Return how long each batch took."""
    client = boto3.client("kinesis", endpoint_url=service.endpoint_url, region_name="us-east-1",
                          aws_access_key_id="local", aws_secret_access_key="local")  # noqa: S106 # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        reader = spark.readStream.format("kinesis").option("streamName", TRICKLE)
        reader = reader.option("endpointUrl", service.endpoint_url)
        rows = reader.option("startingPosition", "latest").load()
        query = sink(rows.writeStream).option("checkpointLocation", folder).start()
        batches: list[Any] = []
        for _ in itertools.count():
            client.put_record(StreamName=TRICKLE, PartitionKey="k", Data=f"{time.time()}".encode())
            time.sleep(0.41)
            batches = [p for p in query.recentProgress if p.numInputRows > 0]
            if len(batches) >= count + 10:
                break
            assert query.isActive, query.exception()
        query.stop()
    return tuple(float(p.durationMs["triggerExecution"]) for p in batches[10:])


def main() -> None:
    """Print the table."""
    print_plainly(figures())


if __name__ == "__main__":
    main()
