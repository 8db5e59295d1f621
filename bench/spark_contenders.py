"""What the Spark source is measured beside: one written with boto3, and Spark's own limit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from shardline.spark.executor.columns import arrow_schema, spark_schema
from shardline.spark.option_names import KINESIS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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


class ReadySource(DataSource):
    """Yields the same Arrow batch again and again: what Spark itself can take from Python."""

    @classmethod
    def name(cls) -> str:
        return "ready-arrow"

    def schema(self) -> Any:
        return spark_schema(KINESIS)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        return ReadyReader(*(int(self.options[name]) for name in ("size", "records", "shards")))


class ReadyReader(DataSourceReader):
    def __init__(self, size: int, records: int, shards: int) -> None:
        self.size, self.records, self.shards = size, records, shards

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(shard) for shard in range(self.shards)]

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
        for _ in range(self.records // self.shards // count):
            yield batch
