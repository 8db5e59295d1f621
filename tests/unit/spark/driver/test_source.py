"""What Spark calls on the driver, without Spark."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import StructType

from shardline.core import query_offsets
from shardline.core.offsets import Offset
from shardline.core.positions import LATEST, TRIM_HORIZON
from shardline.errors import ConfigurationError
from shardline.spark.driver.source import (
    DynamoDBStreamsSource,
    KinesisSource,
    ShardedStreamReader,
    ShardlineKinesisSource,
)

NOTHING = StructType()


def stream_reader(**given: str) -> ShardedStreamReader:
    reader = KinesisSource({"streamName": "orders"} | given).streamReader(NOTHING)
    assert isinstance(reader, ShardedStreamReader)
    return reader


def test_the_formats_have_the_names_that_users_write() -> None:
    names = [each.name() for each in (KinesisSource, ShardlineKinesisSource, DynamoDBStreamsSource)]
    assert names == ["kinesis", "shardline-kinesis", "dynamodb-streams"]


def test_a_mistake_in_an_option_shows_at_load() -> None:
    with pytest.raises(ConfigurationError, match="streamName"):
        KinesisSource({"streamNme": "orders"}).schema()
    assert "partitionKey" in str(KinesisSource({"streamName": "orders"}).schema())


def test_the_first_offset_resolves_nothing_and_calls_nobody() -> None:
    one = stream_reader(startingPosition="trim_horizon").initialOffset()
    two = stream_reader(streamName="a,b").initialOffset()
    horizon, latest = Offset(TRIM_HORIZON), Offset(LATEST)
    assert query_offsets.from_json(one, ["orders"], latest) == {"orders": horizon}
    assert query_offsets.from_json(two, ["a", "b"], horizon) == {"a": latest, "b": latest}


def test_a_batch_is_bounded_by_the_option_unless_the_trigger_asks_for_everything() -> None:
    assert stream_reader(maxRecordsPerBatch="7").getDefaultReadLimit() == ReadMaxRows(7)
    reader = stream_reader()
    with pytest.raises(ConfigurationError, match="ReadMaxFiles"):
        reader.latestOffset(reader.initialOffset(), ReadMaxFiles(1))


@pytest.mark.parametrize("name", ["endingPosition", "shardId"])
def test_what_ends_a_read_is_refused_in_a_streaming_query(name: str) -> None:
    value = "latest" if name == "endingPosition" else "shardId-000000000000"
    reader = stream_reader(**{name: value})
    with pytest.raises(ConfigurationError, match=name):
        reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))


def test_a_reader_travels_to_the_executors() -> None:
    copied = pickle.loads(pickle.dumps(stream_reader()))  # noqa: S301
    assert copied.initialOffset() == stream_reader().initialOffset()
    assert copied.reportLatestOffset() is None


def test_a_snapshot_is_for_streaming_queries() -> None:
    source = DynamoDBStreamsSource({"tableName": "users", "startingPosition": "snapshot"})
    with pytest.raises(ConfigurationError, match="snapshot"):
        source.reader(NOTHING)
