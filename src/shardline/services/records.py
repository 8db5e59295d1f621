"""The records that users see: one light object each, made a page at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from shardline.services.wire.columns import SUB_SEQUENCE, time_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DECODE: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record of any stream: its shard, its number, and the time that the service gave it."""

    shard_id: str
    sequence_number: str
    """Rises within its shard; compare as a number, never as text."""
    arrived_us: int
    """The arrival in microseconds since 1970, from which `arrived_at` is made on demand."""

    @property
    def arrived_at(self) -> datetime:
        """The time at which the service accepted the record: approximate, and by its own clock."""
        return _EPOCH + timedelta(microseconds=self.arrived_us)


class KinesisRecord(Record, frozen=True, gc=False):
    """A record of a Kinesis stream."""

    partition_key: str
    data: bytes
    sub_sequence_number: int | None = None
    """The number of a user record within its aggregated record, from 0; None for other records."""


class DynamoDBRecord(Record, frozen=True, gc=False):
    """A change to an item of a table. Keys and images are DynamoDB JSON: `{"id": {"S": "a"}}`.

    They are parsed at each access, since many consumers need only one of them.
    """

    event_id: str
    event_name: str
    """INSERT, MODIFY or REMOVE."""
    event_version: str
    keys_json: str
    new_json: str | None
    old_json: str | None
    size_bytes: int
    user_identity_json: str | None

    @property
    def keys(self) -> dict[str, Any]:
        """The key attributes of the item."""
        return _DECODE(self.keys_json)

    @property
    def new(self) -> dict[str, Any] | None:
        """The item after the change; None after a delete, or if the stream does not include it."""
        return _parsed(self.new_json)

    @property
    def old(self) -> dict[str, Any] | None:
        """The item before the change; None before an insert, or if the stream leaves it out."""
        return _parsed(self.old_json)

    @property
    def user_identity(self) -> dict[str, Any] | None:
        """Who made the change, where that was the service itself: expiry by time to live."""
        return _parsed(self.user_identity_json)


def position_of(record: Record) -> After:
    """Return the position after a record."""
    sub_sequence = record.sub_sequence_number if isinstance(record, KinesisRecord) else None
    return After(SequenceNumber(record.sequence_number), sub_sequence)


def times_of(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the times of a page's records, in microseconds since 1970."""
    times: NDArray[np.int64] = time_column(batch).cast(pa.int64()).to_numpy()
    return times


def records_of(shard_id: str, batch: pa.RecordBatch, times: NDArray[np.int64]) -> list[Any]:
    """Return the records of a page, made by whole columns: no Python code runs for each record."""
    kind: Callable[..., Record] = DynamoDBRecord
    names: tuple[str, ...] = _DYNAMODB_ORDER
    if "partitionKey" in batch.schema.names:
        kind, names = KinesisRecord, ("partitionKey", "data")
        if _has_user_records(batch):
            names = (*names, SUB_SEQUENCE.name)
    columns: list[Iterable[Any]] = [batch.column(name).to_pylist() for name in names]
    numbers = batch.column("sequenceNumber").to_pylist()
    return list(map(kind, repeat(shard_id), numbers, times.tolist(), *columns))


def _has_user_records(batch: pa.RecordBatch) -> bool:
    if SUB_SEQUENCE.name not in batch.schema.names:
        return False
    return bool(batch.column(SUB_SEQUENCE.name).null_count < batch.num_rows)


_DYNAMODB_ORDER: Final = (
    "eventID", "eventName", "eventVersion", "keys", "newImage", "oldImage", "sizeBytes",
    "userIdentity",
)  # fmt: skip


def _parsed(text: str | None) -> dict[str, Any] | None:
    return None if text is None else _DECODE(text)
