"""Pages of a shard, made by hand, and a consumer and a letter box that note what they are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.consumer.policies import FailurePolicy, Retry
from shardline.services.steps import Pause
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shardline.core.fences import Fence
    from shardline.services.steps import Steps

SHARD = "shardId-000000000001"
ARRIVED = datetime(2026, 11, 15, 12, tzinfo=UTC)


def page(*records: tuple[str, int]) -> pa.RecordBatch:
    """Return Kinesis records from pairs of key and number; the data is the number, too."""
    rows = [
        {
            "partitionKey": key,
            "data": b"%d" % number,
            "sequenceNumber": str(number),
            "approximateArrivalTimestamp": ARRIVED,
        }
        for key, number in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=KINESIS_COLUMNS)


def changes(*keys: str) -> pa.RecordBatch:
    """Return DynamoDB records with these keys, in the service's JSON."""
    rows = [
        {
            "eventID": str(number),
            "eventName": "INSERT",
            "eventVersion": "1.1",
            "keys": text,
            "oldImage": None,
            "newImage": text,
            "sequenceNumber": str(number),
            "approximateCreationDateTime": ARRIVED,
            "sizeBytes": 1,
            "userIdentity": None,
        }
        for number, text in enumerate(keys)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=DYNAMODB_COLUMNS)


def always(*_: int) -> bool:
    return True


def on(bad: int) -> Callable[[int, int], bool]:
    """Return what fails whenever this record is in a batch."""
    return lambda number, *_: number == bad


def before_call(call: int) -> Callable[[int, int], bool]:
    """Return what fails until `process` is called for the n-th time."""
    return lambda _, calls: calls < call


def numbers_in(batch: ShardBatch) -> list[int]:
    return [int(record.sequence_number) for record in batch.records]


@dataclass
class Recorder(ShardConsumer):
    """Notes what it is given."""

    failure: FailurePolicy = field(default_factory=Retry)  # type: ignore[misc]
    fails: Callable[[int, int], bool] = lambda *_: False
    """Given a record's number and the count of calls: whether `process` raises."""
    tried: list[tuple[Fence, list[int]]] = field(default_factory=list)
    processed: list[int] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)

    def process(self, batch: ShardBatch) -> None:
        numbers = numbers_in(batch)
        self.tried.append((batch.fence, numbers))
        for number in numbers:
            if self.fails(number, len(self.tried)):
                raise ValueError(f"no {number}\nplease")
        self.processed += numbers

    def record_failed(self, record: Any, error: Exception) -> None:
        self.failed.append((int(record.sequence_number), str(error)))


@dataclass
class Letters:
    """A letter box in memory."""

    written: list[tuple[Fence, list[int], str]] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)
    """The records of parked keys among them."""
    hash_keys: set[str | None] = field(default_factory=set)

    def write(
        self, batch: ShardBatch, reason: str, *, parked: bool = False, hash_key: str | None = None
    ) -> tuple[str, ...]:
        self.hash_keys.add(hash_key)
        if parked:
            self.parked += numbers_in(batch)
        self.written.append((batch.fence, numbers_in(batch), reason))
        return tuple(f"{batch.shard_id}/{number}" for number in numbers_in(batch))

    @property
    def numbers(self) -> list[int]:
        return [number for _, numbers, _ in self.written for number in numbers]


def run_all(steps: Steps[Any], log: list[Any] | None = None) -> Any:
    """Run steps at once; note the pauses and the calls' results in `log`."""
    log = [] if log is None else log
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(value) if error is None else steps.throw(error)
        except StopIteration as stop:
            return stop.value
        value = error = None
        if isinstance(step, Pause):
            log.append(step)
            continue
        try:
            value = step()
        except Exception as raised:
            error = raised


def fences_rise(fences: Sequence[Fence]) -> bool:
    return all(a < b for a, b in pairwise(fences))
