"""What the Spark source moves, beside a source written with boto3; and what a small batch costs.

`python -m bench.spark_source` prints the table. Both sources read the same stream of one embedded
service, in turns, so that whatever else the machine does slows both.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import boto3
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bench.figures import Figure, print_plainly
from shardline.local import Service
from shardline.spark.columns import arrow_schema, spark_schema
from shardline.spark.options import KINESIS
from shardline.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from pyspark.sql import DataFrame, SparkSession

ROUNDS: Final = 3
RECORDS: Final = 120_000
SHARDS: Final = 8
SIZES: Final = (100, 1_000)
TRICKLE: Final = 60
BACKLOG_LIMIT: Final = 50_000


# --- the service, in a process of its own -------------------------------------------------------


def serve(connection: Connection) -> None:
    """Fill an embedded service, tell where it is, and serve until told to stop."""
    with Service() as service:
        client = service.client("kinesis")
        client.create_stream(StreamName="trickle", ShardCount=1)
        for size in SIZES:
            name = f"backlog-{size}"
            client.create_stream(StreamName=name, ShardCount=SHARDS)
            for first in range(0, RECORDS, 500):
                records = [
                    {"PartitionKey": str(n), "Data": b"x" * size} for n in range(first, first + 500)
                ]
                client.put_records(StreamName=name, Records=records)
                service.clock.advance(0.1)  # as fast as eight shards take them, so windows hold
        connection.send(service.endpoint_url)
        connection.recv()


@contextmanager
def served() -> Iterator[str]:
    """Run the service; yields its address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join()


# --- the source that one writes by hand ---------------------------------------------------------


class Boto3Source(DataSource):
    """A task for each shard, boto3's own parse, a tuple for each record; no order, no state."""

    @classmethod
    def name(cls) -> str:
        return "boto3-kinesis"

    def schema(self) -> str:
        return "key string, data binary, shardId string, sequenceNumber string, at timestamp"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        return Boto3Reader(dict(self.options))


class Boto3Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def client(self) -> Any:
        return boto3.client(
            "kinesis",
            endpoint_url=self.options["endpointurl"],
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106 - any will do
        )

    def partitions(self) -> Sequence[InputPartition]:
        shards = self.client().list_shards(StreamName=self.options["streamname"])["Shards"]
        return [InputPartition(shard["ShardId"]) for shard in shards]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        client = self.client()
        iterator = client.get_shard_iterator(
            StreamName=self.options["streamname"],
            ShardId=partition.value,
            ShardIteratorType="TRIM_HORIZON",
        )["ShardIterator"]
        while True:
            page = client.get_records(ShardIterator=iterator, Limit=10_000)
            iterator = page["NextShardIterator"]
            for r in page["Records"]:
                when = r["ApproximateArrivalTimestamp"]
                yield r["PartitionKey"], r["Data"], partition.value, r["SequenceNumber"], when
            if page["MillisBehindLatest"] == 0:
                return


# --- the limit: Spark with batches that are ready ----------------------------------------------


class ReadySource(DataSource):
    """Yields the same Arrow batch again and again: what Spark itself can take from Python."""

    @classmethod
    def name(cls) -> str:
        return "ready-arrow"

    def schema(self) -> Any:
        return spark_schema(KINESIS)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        return ReadyReader(int(self.options["size"]))


class ReadyReader(DataSourceReader):
    def __init__(self, size: int) -> None:
        self.size = size

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(shard) for shard in range(SHARDS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        count = 5_000
        now = datetime(2026, 1, 1, tzinfo=UTC)
        values: dict[str, Any] = {
            "partitionKey": "12345",
            "data": b"x" * self.size,
            "stream": "ready",
            "shardId": f"shardId-{partition.value:012d}",
            "sequenceNumber": "4" * 56,
            "subSequenceNumber": 0,
            "approximateArrivalTimestamp": now,
        }
        schema = arrow_schema(KINESIS)
        columns = [pa.array([values[field.name]] * count, field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        for _ in range(RECORDS // SHARDS // count):
            yield batch


# --- what is measured ---------------------------------------------------------------------------


def loaded(
    spark: SparkSession, endpoint: str, stream: str, *, streaming: bool, wire: str = "json"
) -> DataFrame:
    reader = (spark.readStream if streaming else spark.read).format("kinesis")
    reader = reader.option("streamName", stream).option("endpointUrl", endpoint)
    reader = reader.option("wire", wire)
    return reader.option("startingPosition", "trim_horizon").load()


def seconds(rows: DataFrame, sink: str) -> float:
    """Read everything into a sink, and return how long that took."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        rows.write.format(sink).mode("overwrite").save(f"{folder}/out")
        return time.perf_counter() - started


def throughput(spark: SparkSession, endpoint: str, size: int, rounds: int) -> list[Figure]:
    spark.dataSource.register(Boto3Source)
    stream = f"backlog-{size}"
    ours = loaded(spark, endpoint, stream, streaming=False)
    theirs = (
        spark.read.format("boto3-kinesis")
        .option("streamName", stream)
        .option("endpointUrl", endpoint)
        .load()
    )
    spark.dataSource.register(ReadySource)
    ready = spark.read.format("ready-arrow").option("size", str(size)).load()
    assert ours.count() == theirs.count() == ready.count() == RECORDS  # and warm
    in_cbor = loaded(spark, endpoint, stream, streaming=False, wire="cbor")
    assert in_cbor.count() == RECORDS
    noop, boto, parquet, limit, binary = [], [], [], [], []
    for _ in range(rounds):
        noop.append(seconds(ours, "noop"))
        boto.append(seconds(theirs, "noop"))
        limit.append(seconds(ready, "noop"))
        binary.append(seconds(in_cbor, "noop"))
        parquet.append(seconds(ours, "parquet"))
    rates = tuple(RECORDS / each for each in noop)
    return [
        Figure(f"source → noop, {size} B", "boto3 in a Python data source",
               tuple(b / a for a, b in zip(noop, boto, strict=True)), target=3.0),
        Figure(f"source → noop, {size} B", "Spark with ready Arrow batches",
               tuple(b / a for a, b in zip(noop, limit, strict=True)), target=0.5),
        Figure(f"source → noop, {size} B, in CBOR", "Spark with ready Arrow batches",
               tuple(b / a for a, b in zip(binary, limit, strict=True)), target=0.5),
        Figure(f"source → noop, {size} B", "", rates, unit="/s"),
        Figure(f"source → noop, {size} B", "", tuple(r * size / 1e6 for r in rates), unit="MB/s"),
        Figure(f"source → parquet, {size} B", "",
               tuple(RECORDS / each for each in parquet), unit="/s"),
    ]  # fmt: skip


def backlog(spark: SparkSession, endpoint: str) -> Figure:
    """Return the sizes of the batches in which a backlog is read under a limit."""
    sizes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        reader = spark.readStream.format("kinesis").option("streamName", f"backlog-{SIZES[0]}")
        reader = reader.option("endpointUrl", endpoint).option("startingPosition", "trim_horizon")
        query = (
            reader.option("maxRecordsPerBatch", str(BACKLOG_LIMIT))
            .load()
            .writeStream.foreachBatch(lambda batch, _: sizes.append(batch.count()))
            .option("checkpointLocation", folder)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert sum(sizes) == RECORDS
    return Figure("largest batch of a backlog", f"{len(sizes)} batches", (float(max(sizes)),),
                  unit="", target=float(BACKLOG_LIMIT), at_most=True)  # fmt: skip


def trickle(spark: SparkSession, endpoint: str) -> list[Figure]:
    """Put a record now and then, and tell how long it took to foreachBatch, and each batch."""
    client = boto3.client("kinesis", endpoint_url=endpoint, region_name="us-east-1",
                          aws_access_key_id="local", aws_secret_access_key="local")  # noqa: S106 # fmt: skip
    delays: list[float] = []

    def received(batch: DataFrame, _: int) -> None:
        rows, now = batch.collect(), time.time()
        delays.extend(now - float(row.data) for row in rows)

    with tempfile.TemporaryDirectory() as folder:
        rows = loaded(spark, endpoint, "trickle", streaming=True)
        query = rows.writeStream.foreachBatch(received).option("checkpointLocation", folder).start()
        for n in itertools.count():
            client.put_record(
                StreamName="trickle", PartitionKey="k", Data=f"{time.time()}".encode()
            )
            time.sleep(0.31)
            if len(delays) >= TRICKLE + 10 or n > 10 * TRICKLE:
                break
        batches = [p for p in query.recentProgress if p.numInputRows > 0][5:]
        query.stop()
    delays = sorted(delays[10:])  # the first ones wait for Spark to start
    overhead = tuple(float(p.durationMs["triggerExecution"]) for p in batches)
    return [
        Figure("put to foreachBatch, p50", "trickle", (statistics.median(delays),), "s",
               target=0.5, at_most=True),
        Figure("put to foreachBatch, p99", "trickle", (delays[int(len(delays) * 0.99)],), "s"),
        Figure("a batch of one record or two", "with its foreachBatch", overhead, "ms",
               target=60.0, at_most=True),
    ]  # fmt: skip


def run(rounds: int = ROUNDS) -> list[Figure]:
    """Measure everything."""
    spark = session("bench", "local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with served() as endpoint:
            figures = [f for size in SIZES for f in throughput(spark, endpoint, size, rounds)]
            return [*figures, backlog(spark, endpoint), *trickle(spark, endpoint)]
    finally:
        spark.stop()


def main() -> None:
    """Print the table."""
    print_plainly(run())


if __name__ == "__main__":
    main()
