"""Rows into a stream, through Spark: in order for each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PythonException

from tests.spark.streams import Stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from shardline.local.service import Service


def written(stream: Stream) -> list[tuple[str, bytes]]:
    """Return every record of a stream: those of a parent before those of its children."""
    found = []
    for shard in stream.client.list_shards(StreamName=stream.name)["Shards"]:
        place = {"StreamName": stream.name, "ShardId": shard["ShardId"]}
        first = stream.client.get_shard_iterator(**place, ShardIteratorType="TRIM_HORIZON")
        page: dict[str, Any] = {"NextShardIterator": first["ShardIterator"]}
        while page.get("NextShardIterator") and page.get("MillisBehindLatest", 1):
            page = stream.client.get_records(ShardIterator=page["NextShardIterator"])
            found += [(each["PartitionKey"], each["Data"]) for each in page["Records"]]
    return found


def of_key(records: list[tuple[str, bytes]], key: str) -> list[bytes]:
    return [data for each, data in records if each == key]


def save(rows: DataFrame, stream: Stream, form: str = "kinesis", **options: str) -> None:
    writer = rows.write.format(form).option("endpointUrl", stream.endpoint_url)
    writer.options(**{"streamName": stream.name, **options}).mode("append").save()


@pytest.mark.req("S-09")
@pytest.mark.parametrize("form", ["kinesis", "shardline-kinesis"])
def test_rows_of_a_key_within_a_partition_are_written_in_their_order(
    spark: SparkSession, service: Service, stream: Stream, form: str
) -> None:
    service.faults.add("throttle", "PutRecords", times=200, probability=0.4)
    rows = spark.range(0, 900, 1, 3).selectExpr(
        "concat('p', spark_partition_id(), '-', id % 7) partitionKey",
        "cast(id as string) data",
        "if(id % 7 = 0, '0', null) explicitHashKey",
    )
    save(rows, stream, form)
    found = written(stream)
    assert len(found) == 900
    for row in rows.select("partitionKey").distinct().collect():
        numbers = [int(data) for data in of_key(found, row.partitionKey)]
        assert numbers == sorted(set(numbers))
    first = [s for s in stream.open_shards() if s["HashKeyRange"]["StartingHashKey"] == "0"]
    iterator = stream.client.get_shard_iterator(
        StreamName=stream.name, ShardId=first[0]["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )
    page = stream.client.get_records(ShardIterator=iterator["ShardIterator"])
    assert {f"p{n}-0" for n in range(3)} <= {each["PartitionKey"] for each in page["Records"]}


@pytest.mark.req("S-09", "S-03")
def test_mistakes_are_named_in_one_line(
    spark: SparkSession, service: Service, stream: Stream
) -> None:
    rows = spark.range(3).selectExpr("'a' partitionKey", "cast(id as string) data")
    with pytest.raises(AnalysisException, match="did you mean aggregation"):
        save(rows, stream, agregation="kpl")
    with pytest.raises(AnalysisException, match="no place for column id"):
        save(rows.selectExpr("*", "1 as id"), stream)
    service.faults.add("throttle", "PutRecords", times=None)
    with pytest.raises(PythonException, match="give the stream more shards") as caught:
        save(rows.coalesce(1), stream, giveUpAfter="200ms")
    assert "Traceback" not in str(caught.value)


@pytest.mark.req("S-08")
def test_a_query_packs_what_it_writes(
    spark: SparkSession, service: Service, stream: Stream, tmp_path: Path
) -> None:
    target = Stream(stream.client, stream.endpoint_url, f"{stream.name}-copy", shards=1)
    stream.put(300, keys=3)
    query = (
        stream.load(spark)
        .select("partitionKey", "data")
        .writeStream.format("kinesis")
        .options(streamName=target.name, endpointUrl=stream.endpoint_url, aggregation="kpl")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert len(written(target)) < 100
    copied = spark.read.format("kinesis").options(
        streamName=target.name, endpointUrl=target.endpoint_url, startingPosition="trim_horizon"
    )
    rows = copied.load().collect()
    for key in range(3):
        texts = [int(row.data) for row in rows if row.partitionKey == f"key-{key}"]
        assert texts == list(range(key, 300, 3))
