"""The Kinesis format: columns, starts, triggers, limits, and the line that answers a mistake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shardline.core.offsets import Offset
from shardline.spark.driver.lag import LagListener, QueryLag
from tests.spark.streams import SERVERS, Consumer, Stream, wait_until
from tests.unit.services.kpl import UserRecord, aggregate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from shardline.local.service import Service


_MOST_SPLITS = 8
"""Kinesalite allows ten open shards, of all streams together."""


def committed(checkpoint: Path) -> Offset:
    """Return the newest offset in a checkpoint directory."""
    newest = max((p for p in (checkpoint / "offsets").iterdir() if p.name.isdigit()), key=_number)
    return Offset.from_json(newest.read_text().splitlines()[-1])


def _number(path: Path) -> int:
    return int(path.name)


@SERVERS
@pytest.mark.req("P-01")
@pytest.mark.case("R-10")
def test_columns_and_a_batch_read_three_times(
    on: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    stream: Stream = request.getfixturevalue(on)
    stream.put(50)
    batches: list[tuple[list[Row], ...]] = []

    def three_times(batch: DataFrame, _: int) -> None:
        first = batch.collect()
        stream.put(5)  # what arrives meanwhile belongs to another batch
        batches.append((first, batch.collect(), batch.collect()))

    query = (
        stream.load(spark, shardsPerTask="2")
        .writeStream.foreachBatch(three_times)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    numbers = sorted(int(row.data) for first, _, _ in batches for row in first)
    assert numbers[:50] == list(range(50))  # and maybe some that arrived in the same second
    for first, second, third in batches:
        assert first == second == third
    row = next(first[0] for first, _, _ in batches if first)
    assert row.asDict().keys() == {
        "partitionKey", "data", "stream", "shardId", "sequenceNumber", "subSequenceNumber",
        "approximateArrivalTimestamp",
    }  # fmt: skip
    assert (row.stream, row.subSequenceNumber) == (stream.name, 0)
    assert isinstance(row.data, bytes | bytearray)


@pytest.mark.req("O-17", "O-22")
@pytest.mark.case("L-20", "R-06", "R-13")
def test_latest_on_a_quiet_stream_stopped_written_to_and_begun_again(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    stream.client.put_record(StreamName=stream.name, PartitionKey="old", Data=b"before")
    consumer = Consumer(stream, tmp_path)
    rows = stream.load(spark, start="latest")
    query = consumer.start(rows)
    wait_until(lambda: (tmp_path / "commits" / "0").exists(), "the first batch is pinned", query)
    query.stop()
    stream.put(10)
    stream.split(0)
    stream.put(10)
    consumer.run(rows)
    assert stream.verdict().require().delivered == 20


@SERVERS
@pytest.mark.req("O-15", "P-01")
def test_available_now_ends_while_the_stream_reshards_and_goes_on(
    on: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    stream: Stream = request.getfixturevalue(on)
    stream.put(200)
    consumer = Consumer(stream, tmp_path)
    stop = threading.Event()

    def churn() -> None:
        n = 0
        # It writes to each shard until the query has ended: kinesalite never answers a read at a
        # time with no record after that time, and so is the tip of a shard found.
        while not stop.is_set():
            stream.put(10)
            stream.put_everywhere()
            if n < _MOST_SPLITS:
                stream.split(n % len(stream.open_shards()))
            n += 1
            stop.wait(0.5)

    churning = threading.Thread(target=churn)
    query = consumer.start(stream.load(spark, maxRecordsPerBatch="60"), availableNow=True)
    churning.start()
    try:
        assert query.awaitTermination(90), "it did not end"
    finally:
        stop.set()
        churning.join()
    numbers = sorted(int(row.data) for row in consumer.rows)
    assert numbers[:200] == list(range(200))
    assert max(len(batch) for batch in consumer.batches) <= 60
    if on == "foreign_stream":
        return  # nobody writes any more
    consumer.run(stream.load(spark))
    verdict = stream.verdict().require()
    assert (verdict.delivered, verdict.repeated) == (stream.written, 0)


def test_once_reads_everything_that_was_there(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    stream.put(120)
    consumer = Consumer(stream, tmp_path)
    consumer.run(stream.load(spark, maxRecordsPerBatch="10"), once=True)
    assert [len(batch) for batch in consumer.batches] == [120]


def test_a_bounded_read_is_in_order_through_a_reshard(stream: Stream, spark: SparkSession) -> None:
    stream.put(40)
    stream.split(0)
    stream.merge(1)
    stream.put(40)
    time.sleep(1.1)  # the service's clock, which bounds the range, tells whole seconds
    between = datetime.now(UTC)
    stream.put(7)
    reader = (
        spark.read.format("kinesis")
        .option("streamName", stream.name)
        .option("endpointUrl", stream.endpoint_url)
    )
    begin, end = reader.option("startingPosition", "trim_horizon"), between.isoformat()
    rows = begin.option("endingPosition", end).load().collect()
    by_key: dict[str, list[int]] = {}
    for row in rows:
        by_key.setdefault(row.partitionKey, []).append(int(row.data))
    assert sorted(n for ns in by_key.values() for n in ns) == list(range(80))
    assert all(ns == sorted(ns) for ns in by_key.values())
    late = reader.option("startingPosition", end).option("endingPosition", "latest").load()
    assert sorted(int(row.data) for row in late.collect()) == list(range(80, 87))


@pytest.mark.case("R-08")
def test_aggregated_records_are_taken_apart_unless_told_not_to(
    stream: Stream, spark: SparkSession
) -> None:
    written = [("a", b"1"), ("b", b"2"), ("a", b"3")]
    data = aggregate([UserRecord(key, value) for key, value in written])
    stream.client.put_record(StreamName=stream.name, PartitionKey="x", Data=data)
    reader = (
        spark.read.format("kinesis")
        .option("streamName", stream.name)
        .option("endpointUrl", stream.endpoint_url)
        .option("startingPosition", "trim_horizon")
    )
    rows = reader.load().collect()
    assert [(r.partitionKey, bytes(r.data), r.subSequenceNumber) for r in rows] == [
        ("a", b"1", 0), ("b", b"2", 1), ("a", b"3", 2),
    ]  # fmt: skip
    (whole,) = reader.option("deaggregate", "false").load().collect()
    assert bytes(whole.data) == data


def test_lag_and_lineage_are_told_of_every_batch(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    told: list[QueryLag] = []
    listener = LagListener(told.append)
    spark.streams.addListener(listener)
    try:
        stream.put(10)
        stream.split(0)
        stream.put(10)
        Consumer(stream, tmp_path).run(stream.load(spark))
        wait_until(lambda: sum(len(lag.shards) == 3 for lag in told) > 1, "the children are told")
    finally:
        spark.streams.removeListener(listener)
    last = told[-1]
    assert last.finished == ("shardId-000000000000",)
    assert {shard.shard_id for shard in last.shards} == {
        "shardId-000000000001", "shardId-000000000002", "shardId-000000000003",
    }  # fmt: skip
    assert all(shard.seconds is not None and shard.seconds < 600 for shard in last.shards)


@pytest.mark.req("P-01")
def test_hundreds_of_shards_share_tasks(
    service: Service, spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(service.client("kinesis"), service.endpoint_url, "wide", shards=300)
    stream.put(1_200, keys=600)
    rows = stream.load(spark, shardsPerTask="100", maxRecordsPerBatch="500")
    consumer = Consumer(stream, tmp_path)
    consumer.run(rows)
    assert max(len(batch) for batch in consumer.batches) <= 500
    stream.split(7)
    stream.merge(200)
    stream.put(600, keys=600)
    consumer.run(rows)
    verdict = stream.verdict().require()
    assert (verdict.delivered, verdict.repeated) == (stream.written, 0)


def test_a_local_checkpoint_has_no_checksum_files(spark: SparkSession, tmp_path: Path) -> None:
    # Each would cost every batch a forked process more.
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    once = rows.writeStream.trigger(once=True).option("checkpointLocation", str(tmp_path))
    once.format("noop").start().awaitTermination(60)
    assert (tmp_path / "commits" / "0").exists()
    assert not list(tmp_path.rglob("*.crc"))


# --- mistakes -----------------------------------------------------------------------------------


def test_an_end_for_a_query_without_one_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.readStream.format("kinesis").option("streamName", "orders")
    rows = reader.option("region", "us-east-1").option("endingPosition", "latest").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match=r"endingPosition is for spark\.read, which ends") as error:
        query.awaitTermination(60)
    assert "Traceback" not in str(error.value)


def test_a_misspelt_option_fails_at_load_with_the_nearest_name(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="did you mean startingPosition") as error:
        spark.readStream.format("kinesis").option("streamName", "x").option(
            "startingPositon", "latest"
        ).load()
    assert "Traceback" not in str(error.value)


def test_an_unknown_stream_is_one_readable_line(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    rows = (
        spark.readStream.format("kinesis")
        .option("streamName", "nowhere")
        .option("endpointUrl", stream.endpoint_url)
        .load()
    )
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match="nowhere") as error:
        query.awaitTermination(60)
    assert "Traceback" not in str(error.value)


def test_missing_credentials_are_one_readable_line(tmp_path: Path) -> None:
    # In a program of its own: Spark hands the environment that it was started with to its sources.
    program = """
import sys
from shardline.spark import session
rows = session("nobody", "local[1]").readStream.format("kinesis").option("streamName", "orders")
rows = rows.option("region", "us-east-1").load().writeStream.format("noop")
try:
    rows.option("checkpointLocation", sys.argv[1]).start().awaitTermination(90)
except Exception as error:
    print(error)
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "checkpoint")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    line = r"kinesis://orders: no usable AWS credentials .*: set AWS_ACCESS_KEY_ID"
    assert re.search(line, told.stdout), told.stdout + told.stderr[-2000:]
    assert "Traceback" not in told.stdout


def test_offsets_hold_nothing_but_positions(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    stream.put(3)
    Consumer(stream, tmp_path).run(stream.load(spark))
    text = "".join(p.read_text() for p in (tmp_path / "offsets").iterdir() if p.name.isdigit())
    assert stream.endpoint_url not in text
    assert committed(tmp_path).ranges.keys() == {"shardId-000000000000", "shardId-000000000001"}
