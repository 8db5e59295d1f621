"""Filters that are pushed into `spark.read` spare reading, and never change the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.functions import col

from tests.spark.streams import Stream, wait_until

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from shardline.local.service import Service

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
ARRIVED = "approximateArrivalTimestamp"


def load(spark: SparkSession, stream: Stream, **options: str) -> DataFrame:
    reader = spark.read.format("kinesis").option("streamName", stream.name)
    reader = reader.option("endpointUrl", stream.endpoint_url)
    for name, value in ({"startingPosition": "trim_horizon"} | options).items():
        reader = reader.option(name, value)
    return reader.load()


def rows_of(data: DataFrame) -> list[Row]:
    return sorted(data.collect(), key=lambda row: int(row.data))


def test_filters_on_shard_and_time_give_the_same_rows_from_fewer_shards(
    stream: Stream, spark: SparkSession
) -> None:
    stream.put(40)
    everything = rows_of(load(spark, stream))
    assert len(everything) == 40
    middle = everything[20].approximateArrivalTimestamp
    shard = everything[0].shardId
    cases: list[tuple[Column, int]] = [
        (col("shardId").isin(shard, "no-such-shard"), 1),
        ((col("shardId") == shard) & (col(ARRIVED) > middle), 1),
        ((col(ARRIVED) >= middle) & (col(ARRIVED) <= everything[30].asDict()[ARRIVED]), 2),
        ((col("shardId") == shard) | (col(ARRIVED) > middle), 2),
        (col("stream") == "another", 1),  # Spark wants one, which is empty
    ]
    for condition, partitions in cases:
        pushed = load(spark, stream).filter(condition)
        assert pushed.rdd.getNumPartitions() == partitions, condition
        found = rows_of(pushed)
        spark.conf.set(PUSHDOWN, "false")
        try:
            assert found == rows_of(load(spark, stream).filter(condition)), condition
        finally:
            spark.conf.set(PUSHDOWN, "true")


def test_options_say_the_same_where_filters_are_not_pushed(
    stream: Stream, spark: SparkSession
) -> None:
    stream.put(10)
    (first, second) = (shard["ShardId"] for shard in stream.open_shards())
    one = load(spark, stream, shardId=first)
    assert one.rdd.getNumPartitions() == 1
    assert {row.shardId for row in one.collect()} == {first}
    both = load(spark, stream, shardId=f"{first},{second}").collect()
    assert sorted(int(row.data) for row in both) == list(range(10))


@pytest.mark.parametrize("limit", ["maxBytesPerBatch", "maxRecordsPerShard"])
def test_no_batch_exceeds_its_limits(
    limit: str,
    service: Service,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = service.endpoint_url
    stream = Stream(service.client("kinesis"), url, f"limited-{limit.lower()}")
    stream.put(60)
    batches: list[list[Row]] = []
    # A record of these is 3 bytes of data, and about a hundred with its number and its time.
    query = (
        stream.load(spark, **{limit: {"maxBytesPerBatch": "2k"}.get(limit, "7")})
        .writeStream.foreachBatch(lambda batch, _: batches.append(batch.collect()))
        .option("checkpointLocation", str(tmp_path_factory.mktemp(limit)))
        .start()
    )
    wait_until(lambda: sum(map(len, batches)) >= 60, "all records are delivered", query)
    query.stop()
    assert sorted(int(row.data) for batch in batches for row in batch) == list(range(60))
    for batch in batches:
        shards = [row.shardId for row in batch]
        most = max((shards.count(each) for each in set(shards)), default=0)
        assert most <= (7 if limit == "maxRecordsPerShard" else 14)
