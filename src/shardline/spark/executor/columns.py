"""The columns that Spark sees, and how a page's records become them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS, SUB_SEQUENCE
from shardline.spark.option_names import KINESIS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KINESIS_NAMES: Final = (
    "partitionKey", "data", "stream", "shardId", "sequenceNumber", "subSequenceNumber",
    "approximateArrivalTimestamp",
)  # fmt: skip
DYNAMODB_NAMES: Final = (
    "eventID", "eventName", "eventVersion", "keys", "oldImage", "newImage", "sequenceNumber",
    "approximateCreationDateTime", "sizeBytes", "shardId", "stream", "userIdentity",
)  # fmt: skip

_ADDED: Final = {
    "stream": pa.field("stream", pa.string(), nullable=False),
    "shardId": pa.field("shardId", pa.string(), nullable=False),
    "subSequenceNumber": pa.field("subSequenceNumber", pa.int64(), nullable=False),
}


def arrow_schema(format_name: str) -> pa.Schema:
    """Return the columns of a format, in the order that users see."""
    names, source = (
        (KINESIS_NAMES, KINESIS_COLUMNS)
        if format_name == KINESIS
        else (DYNAMODB_NAMES, DYNAMODB_COLUMNS)
    )
    return pa.schema([_ADDED.get(name) or source.field(name) for name in names])


def spark_schema(format_name: str) -> StructType:
    """Return the columns of a format as Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(format_name))


def with_origin(
    records: pa.RecordBatch, schema: pa.Schema, *, stream: str, shard_id: str
) -> pa.RecordBatch:
    """Add the stream and the shard to records, and put the columns in order."""
    added = {
        "stream": lambda: pa.repeat(pa.scalar(stream, pa.string()), records.num_rows),
        "shardId": lambda: pa.repeat(pa.scalar(shard_id, pa.string()), records.num_rows),
        "subSequenceNumber": lambda: pa.repeat(pa.scalar(0, pa.int64()), records.num_rows),
    }
    present = set(records.schema.names)
    columns = [records.column(name) if name in present else added[name]() for name in schema.names]
    if SUB_SEQUENCE.name in present:
        at = schema.names.index(SUB_SEQUENCE.name)
        columns[at] = columns[at].fill_null(0)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
