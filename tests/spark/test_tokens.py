"""Tokens in both directions: a query goes on where a stream stands, a stream where a query does."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

import shardline
from shardline.spark import token_of
from tests.spark.streams import Consumer, Stream, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.req("P-05")
def test_a_query_goes_on_where_the_token_of_a_stream_stands(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    stream.put(30)
    address = f"kinesis://{stream.name}"
    with shardline.stream(
        address, "trim_horizon", endpoint_url=stream.endpoint_url, page_size=5
    ) as records:
        before = {int(record.data) for record in itertools.islice(records, 13)}
        token = json.dumps(records.token)
    stream.split(0)
    stream.put(10)
    consumer = Consumer(stream, tmp_path)
    consumer.run(stream.load(spark, start=token))
    stream.put(10)
    consumer.run(stream.load(spark, start=token))  # by now the checkpoint rules
    after = [int(row.data) for row in consumer.rows]
    assert sorted([*before, *after]) == list(range(50))


@pytest.mark.req("P-05")
def test_a_stream_and_a_second_query_go_on_where_a_query_stands(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    stream.put(30)
    first, second = (Consumer(stream, tmp_path / name) for name in ("first", "second"))
    query = first.start(stream.load(spark, maxRecordsPerBatch="20"), availableNow=True)
    assert query.awaitTermination(90), "the query did not end"
    token = token_of(query)
    stream.split(0)
    stream.put(20)
    before = {int(row.data) for row in first.rows}
    assert before == set(range(30))
    with shardline.stream(
        f"kinesis://{stream.name}", token, endpoint_url=stream.endpoint_url
    ) as records:
        after = sorted(int(record.data) for record in itertools.islice(records, 20))
    assert after == list(range(30, 50))
    query = second.start(stream.load(spark, start=json.dumps(token)))
    wait_until(lambda: len(second.rows) >= len(after), "the second query has gone on", query)
    query.stop()
    assert sorted(int(row.data) for row in second.rows) == after


def test_a_token_of_another_stream_is_one_readable_line(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    stream.put(3)
    other = Stream(stream.client, stream.endpoint_url, f"{stream.name}-other")
    with shardline.stream(
        f"kinesis://{other.name}", "trim_horizon", endpoint_url=stream.endpoint_url
    ) as records:
        token = json.dumps(records.token)
    rows = stream.load(spark, start=token)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match=f"the checkpoint or token is of .*{other.name}") as error:
        query.awaitTermination(60)
    assert "Traceback" not in str(error.value)
