"""The Arrow columns in which records travel, named as Spark users see them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")

KINESIS_COLUMNS: Final = pa.schema(
    [
        pa.field("partitionKey", pa.string(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("sequenceNumber", pa.string(), nullable=False),
        pa.field("approximateArrivalTimestamp", TIME, nullable=False),
    ]
)

DYNAMODB_COLUMNS: Final = pa.schema(
    [
        pa.field("eventID", pa.string(), nullable=False),
        pa.field("eventName", pa.string(), nullable=False),
        pa.field("eventVersion", pa.string(), nullable=False),
        pa.field("keys", pa.string(), nullable=False),
        pa.field("oldImage", pa.string()),
        pa.field("newImage", pa.string()),
        pa.field("sequenceNumber", pa.string(), nullable=False),
        pa.field("approximateCreationDateTime", TIME, nullable=False),
        pa.field("sizeBytes", pa.int64(), nullable=False),
        pa.field("userIdentity", pa.string()),
    ]
)
"""Keys, images and identity are the service's own JSON text, cut out of the body unparsed."""


def time_column(records: pa.RecordBatch) -> pa.Array:
    """Return when the service says that each record arrived, whichever service it is."""
    kinesis = "approximateArrivalTimestamp" in records.schema.names
    return records.column(
        "approximateArrivalTimestamp" if kinesis else "approximateCreationDateTime"
    )
