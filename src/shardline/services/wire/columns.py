"""The Arrow columns in which records travel, named as Spark users see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")
LAST_SECOND: Final = 2**33
"""In the year 2242. A number of JSON holds the microseconds of no later time."""

KINESIS_COLUMNS: Final = pa.schema(
    [
        pa.field("partitionKey", pa.string(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("sequenceNumber", pa.string(), nullable=False),
        pa.field("approximateArrivalTimestamp", TIME, nullable=False),
    ]
)

SUB_SEQUENCE: Final = pa.field("subSequenceNumber", pa.int64())
"""Added where aggregated records are split: the number of a user record within its record, from 0;
null for a record that is not aggregated."""

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
    """Return the arrival times of records, whichever service they are from."""
    kinesis = "approximateArrivalTimestamp" in records.schema.names
    return records.column(
        "approximateArrivalTimestamp" if kinesis else "approximateCreationDateTime"
    )


def time_array(seconds: Iterable[float], count: int) -> pa.Array:
    """Return a column of times from seconds since 1970, rounded to the microsecond.

    Truncating would turn 1700000000.123 into …122999: the nearest double lies just below.
    """
    if not isinstance(seconds, np.ndarray):
        seconds = np.fromiter(seconds, np.float64, count)
    if count and not (seconds.min() >= 0 and seconds.max() <= LAST_SECOND):  # false for NaN too
        raise msgspec.DecodeError("a record has an impossible time")
    micros = np.rint(seconds * 1e6).astype(np.int64)
    return pa.Array.from_buffers(TIME, count, [None, pa.py_buffer(micros)])
