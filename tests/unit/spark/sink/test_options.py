"""Options and columns of the sink: a mistake is one line."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from shardline.errors import ConfigurationError
from shardline.spark.sink.options import Sink, read_sink


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


PLAIN = columns(partitionKey=StringType(), data=BinaryType())
ORDERS = {"streamName": "orders"}


def read(given: dict[str, str], schema: StructType = PLAIN, *, overwrite: bool = False) -> Sink:
    return read_sink(given, schema, overwrite=overwrite)


def test_what_is_not_given() -> None:
    sink = read({"kinesis.streamname": "orders", "checkpointLocation": "/tmp/x"})  # noqa: S108
    assert sink.connection.address == "kinesis://orders"
    assert (sink.aggregate, sink.dedupe_columns, sink.give_up_seconds) == (False, (), 120.0)
    assert not sink.has_hash_keys


def test_what_is_given() -> None:
    schema = columns(
        partitionKey=StringType(),
        data=StringType(),
        explicitHashKey=StringType(),
        sequenceNumber=StringType(),
        place=LongType(),
    )
    given = {"aggregation": "KPL", "giveUpAfter": "5m", "dedupeColumns": "sequenceNumber, place"}
    sink = read({**ORDERS, **given, "region": "eu-west-1"}, schema)
    assert sink.aggregate
    assert sink.give_up_seconds == 300
    assert sink.dedupe_columns == ("sequenceNumber", "place")
    assert sink.has_hash_keys
    assert sink.connection.access.region == "eu-west-1"


@pytest.mark.req("S-09")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "say where to write"),
        ({"streamName": "a b"}, "not the name of a stream"),
        ({**ORDERS, "agregation": "kpl"}, "did you mean aggregation"),
        ({**ORDERS, "aggregation": "zip"}, "neither none nor kpl"),
        ({**ORDERS, "giveUpAfter": "soon"}, "option giveUpAfter: 'soon' is no time span"),
        ({**ORDERS, "awsSecretKey": "x"}, "refused, because options end up in plans"),
        ({**ORDERS, "dedupeColumns": "row"}, "have no column row"),
    ],
)
def test_a_wrong_option(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read(given)
    assert "\n" not in str(caught.value)


@pytest.mark.req("S-09")
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (columns(data=BinaryType()), "no column partitionKey"),
        (columns(partitionKey=StringType()), "no column data"),
        (columns(partitionKey=IntegerType(), data=BinaryType()), "is int: cast it to string"),
        (
            columns(partitionKey=StringType(), data=LongType()),
            "column data is bigint: cast it to binary or string",
        ),
        (
            columns(partitionKey=StringType(), data=BinaryType(), shardId=StringType()),
            "no place for column shardId",
        ),
    ],
)
def test_wrong_columns(schema: StructType, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(ORDERS, schema)


@pytest.mark.req("S-09")
def test_a_stream_is_not_overwritten() -> None:
    with pytest.raises(ConfigurationError, match="append"):
        read(ORDERS, overwrite=True)
