"""Some of the source's tests again, with executors that share nothing with the driver.

What they prove is said where they are written; kills on a cluster are among the kills.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.spark.streams import wait_until
from tests.spark.test_dynamodb_streams import load
from tests.spark.test_resharding import (
    test_splits_and_merges_while_away,
    test_splits_and_merges_while_reading,
)
from tests.spark.test_source import (
    test_a_bounded_read_is_in_order_through_a_reshard,
    test_aggregated_records_are_taken_apart_unless_told_not_to,
    test_available_now_ends_while_the_stream_reshards_and_goes_on,
    test_columns_and_a_batch_read_three_times,
    test_lag_and_lineage_are_told_of_every_batch,
    test_latest_on_a_quiet_stream_stopped_written_to_and_begun_again,
    test_once_reads_everything_that_was_there,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from shardline.local.service import Service

__all__ = [
    "test_a_bounded_read_is_in_order_through_a_reshard",
    "test_aggregated_records_are_taken_apart_unless_told_not_to",
    "test_available_now_ends_while_the_stream_reshards_and_goes_on",
    "test_columns_and_a_batch_read_three_times",
    "test_lag_and_lineage_are_told_of_every_batch",
    "test_latest_on_a_quiet_stream_stopped_written_to_and_begun_again",
    "test_once_reads_everything_that_was_there",
    "test_splits_and_merges_while_away",
    "test_splits_and_merges_while_reading",
]


@pytest.mark.req("C-18", "P-01")
def test_changes_of_a_table_come_in_order_through_a_branch(
    service: Service, spark: SparkSession, tmp_path: Path
) -> None:
    # The tests of tests/spark end by availableNow, which waits half a minute for each query: the
    # service does not say where the tip of such a stream is.
    service.tables.create_table("users")
    came: dict[str, list[int]] = {}

    def received(batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            image = json.loads(row.newImage)
            came.setdefault(image["id"]["S"], []).append(int(image["n"]["N"]))

    def put(first: int) -> None:
        for n in range(first, first + 30):
            keys = {"id": {"S": f"user-{n % 5}"}}
            service.tables.put_change("users", keys, new=keys | {"n": {"N": str(n)}})

    query = (
        load(spark, service)
        .writeStream.foreachBatch(received)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        put(0)
        client = service.client("dynamodbstreams")
        arn = client.list_streams(TableName="users")["Streams"][0]["StreamArn"]
        (shard,) = client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        service.tables.split("users", shard["ShardId"])
        put(30)
        wait_until(lambda: sum(map(len, came.values())) >= 60, "everything came", query)
    finally:
        query.stop()
    assert came == {f"user-{k}": list(range(k, 60, 5)) for k in range(5)}
