"""Several streams in one load, and a batch in total order, on the service at its worst."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.functions import spark_partition_id

from shardline.core.fences import Fence
from tests.spark.streams import Stream, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from shardline.local.service import Service


def test_two_streams_through_a_reshard_and_a_restart(
    service: Service, spark: SparkSession, tmp_path: Path
) -> None:
    client, url = service.client("kinesis"), service.endpoint_url
    streams = {name: Stream(client, url, name) for name in ("left", "right")}
    fences = itertools.count()

    def received(batch: DataFrame, _: int) -> None:
        rows, fence = batch.collect(), Fence(0, next(fences))
        for name, stream in streams.items():
            stream.delivered([row for row in rows if row.stream == name], fence)

    rows = streams["left"].load(spark, streamName="left,right")
    for number in range(2):
        streams["left"].put(20)
        streams["right"].put(10)
        query = (
            rows.writeStream.foreachBatch(received)
            .option("checkpointLocation", str(tmp_path))
            .start()
        )
        if number == 0:
            streams["left"].split(0)
        streams["left"].put(10)
        wait_until(
            lambda: all(stream.verdict().lost == 0 for stream in streams.values()),
            "both streams are delivered",
            query,
        )
        query.stop()
    for stream in streams.values():
        verdict = stream.verdict().require()
        assert verdict.delivered == stream.written


@pytest.mark.req("P-05")
def test_a_batch_in_total_order_is_one_partition(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    stream.put(60)
    batches: list[list[Row]] = []

    def received(batch: DataFrame, _: int) -> None:
        again = batch.withColumn("partition", spark_partition_id()).collect()
        batches.append(again)
        assert batch.collect() == [tuple(row)[:-1] for row in again]

    query = (
        stream.load(spark, order="total")
        .writeStream.foreachBatch(received)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )

    def has_both_shards() -> bool:
        """Return true if one batch has; a shard that answers late has a batch of its own."""
        stream.put(4)
        return any(len({row.shardId for row in batch}) == 2 for batch in list(batches))

    wait_until(has_both_shards, "a batch of both shards is delivered", query)
    everything = stream.written
    wait_until(lambda: sum(map(len, batches)) >= everything, "all records are delivered", query)
    query.stop()
    rows = [row for batch in batches for row in batch]
    assert sorted(int(row.data) for row in rows) == list(range(everything))
    for batch in batches:
        times = [row.approximateArrivalTimestamp for row in batch]
        assert times == sorted(times)
        assert len({row.partition for row in batch}) <= 1


@pytest.mark.req("P-05")
def test_a_bounded_read_in_total_order_follows_lineage(stream: Stream, spark: SparkSession) -> None:
    stream.put(40)
    stream.split(0)
    stream.put(40)
    rows = (
        spark.read.format("kinesis")
        .option("streamName", stream.name)
        .option("endpointUrl", stream.endpoint_url)
        .option("startingPosition", "trim_horizon")
        .option("order", "total")
        .load()
        .collect()
    )
    # One writer: the times rise, up to ties within a millisecond.
    times = [row.approximateArrivalTimestamp for row in rows]
    assert times == sorted(times)
    assert sorted(int(row.data) for row in rows) == list(range(80))
    by_key: dict[str, list[int]] = {}
    for row in rows:
        by_key.setdefault(row.partitionKey, []).append(int(row.data))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
