"""Order through resharding, as a Spark query sees it: on our own service and on one of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.streams import SERVERS, Consumer, Stream, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@SERVERS
@pytest.mark.req("O-01", "O-02", "O-03", "O-05", "O-13", "O-14", "O-15", "P-01", "P-03")
@pytest.mark.case("L-19")
def test_splits_and_merges_while_reading(
    on: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    stream: Stream = request.getfixturevalue(on)
    consumer = Consumer(stream, tmp_path)
    stream.put(60)
    query = consumer.start(stream.load(spark))
    try:
        wait_until(consumer.has_all, "the first records came", query)
        for reshard, choice in ((stream.split, 0), (stream.merge, 1), (stream.split, 1)):
            stream.put(40)
            reshard(choice)
            stream.put(40)
        wait_until(consumer.has_all, "everything came", query)
    finally:
        query.stop()
    verdict = stream.verdict().require()
    assert (verdict.delivered, verdict.repeated) == (stream.written, 0)


@pytest.mark.req("O-01", "O-02", "O-16", "K-09", "K-10", "P-01")
@pytest.mark.case("L-16", "L-20", "R-13")
def test_splits_and_merges_while_away(stream: Stream, spark: SparkSession, tmp_path: Path) -> None:
    # Not on kinesalite: it never answers a read at a time with no record after that time, and
    # that is how the end of a shard is found for a query that ends by itself.
    consumer = Consumer(stream, tmp_path)
    rows = stream.load(spark)
    stream.put(60)
    consumer.run(rows)
    for away in ([stream.split], [stream.merge], [stream.merge, stream.split]):
        stream.put(20)
        for reshard in away:
            reshard(0)
            stream.put(20)
        consumer.run(rows)
        assert consumer.has_all()
    verdict = stream.verdict().require()
    assert (verdict.delivered, verdict.repeated) == (stream.written, 0)
