"""The limits of the service, as token buckets over the service's clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from shardline.local.refusals import Refusal

_MIB: Final = 1024 * 1024

CALLS_PER_SECOND: Final = {
    "AddTagsToStream": 5,
    "CreateStream": 5,
    "DecreaseStreamRetentionPeriod": 5,
    "DeleteStream": 5,
    "DeregisterStreamConsumer": 5,
    "DescribeLimits": 1,
    "DescribeStream": 10,
    "DescribeStreamConsumer": 20,
    "DescribeStreamSummary": 20,
    "IncreaseStreamRetentionPeriod": 5,
    "ListShards": 1000,
    "ListStreamConsumers": 5,
    "ListStreams": 5,
    "ListTagsForResource": 5,
    "ListTagsForStream": 5,
    "MergeShards": 5,
    "RegisterStreamConsumer": 5,
    "RemoveTagsFromStream": 5,
    "SplitShard": 5,
    "TagResource": 5,
    "UntagResource": 5,
    "UpdateMaxRecordSize": 5,
    "UpdateShardCount": 10,
}
"""Calls per second and account; the other operations are limited per shard."""


@dataclass(frozen=True, slots=True)
class ShardRates:
    """The limits of one shard per second."""

    iterators: int = 5
    reads: int = 5
    read_bytes: int = 2 * _MIB
    written_records: int = 1000
    written_bytes: int = _MIB
    pushed_bytes: int = 2 * _MIB
    """For each registered consumer of enhanced fan-out."""


class _Bucket:
    """Holds the amount of one second; a large read can make its level negative."""

    __slots__ = ("at_ms", "level", "rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        self.rate = rate
        self.level = float(rate)
        self.at_ms = now_ms

    def refill(self, now_ms: int) -> float:
        passed_seconds = (now_ms - self.at_ms) / 1000
        self.level = min(float(self.rate), self.level + passed_seconds * self.rate)
        self.at_ms = now_ms
        return self.level

    def take(self, amount: int) -> int:
        """Take from the bucket, whatever it holds; return when its level is not negative."""
        self.level -= amount
        return self.at_ms + math.ceil(max(0.0, -self.level) / self.rate * 1000)


class Limits:
    """The limits of one account, off by default."""

    def __init__(self, *, enabled: bool = False, rates: ShardRates | None = None) -> None:
        self.rates = rates or ShardRates()
        self._enabled = enabled
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    @property
    def enabled(self) -> bool:
        """Whether anything is counted. Limits that are switched on begin with full buckets."""
        return self._enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        if enabled and not self._enabled:
            self._buckets.clear()
        self._enabled = enabled

    def count_call(self, operation: str, now_ms: int) -> None:
        """Count a call of the account. Raises `Refusal` above the limit."""
        rate = CALLS_PER_SECOND.get(operation)
        if self.enabled and rate is not None and not self._spend(operation, "", rate, 1, now_ms):
            raise Refusal("LimitExceededException", f"more than {rate} {operation} calls a second")

    def count_iterator(self, shard_key: str, now_ms: int) -> None:
        """Count a GetShardIterator call. Raises `Refusal` above the limit."""
        rate = self.rates.iterators
        if self.enabled and not self._spend("iterators", shard_key, rate, 1, now_ms):
            raise exceeded(f"more than {rate} GetShardIterator calls a second for {shard_key}")

    def count_read(self, shard_key: str, now_ms: int) -> None:
        """Count a GetRecords call. Raises `Refusal` above the limit of calls or bytes."""
        if not self.enabled:
            return
        if self._bucket("read_bytes", shard_key, self.rates.read_bytes, now_ms).level <= 0:
            raise exceeded(f"more than {self.rates.read_bytes} bytes a second read of {shard_key}")
        if not self._spend("reads", shard_key, self.rates.reads, 1, now_ms):
            raise exceeded(f"more than {self.rates.reads} GetRecords a second for {shard_key}")

    def count_bytes_read(self, shard_key: str, size_bytes: int, now_ms: int) -> int:
        """Count the bytes of an answer; return the time before which they refuse a read."""
        if not self.enabled:
            return now_ms
        bucket = self._bucket("read_bytes", shard_key, self.rates.read_bytes, now_ms)
        return bucket.take(size_bytes)

    def count_write(self, shard_key: str, size_bytes: int, now_ms: int) -> None:
        """Count a record. Raises `Refusal` above the limit of records or bytes."""
        if not self.count_writes(shard_key, 1, size_bytes, now_ms):
            raise exceeded(f"Rate exceeded for shard {shard_key}")

    def count_writes(self, shard_key: str, count: int, size_bytes: int, now_ms: int) -> bool:
        """Count records together if the limits allow all of them; else return false."""
        if not self._enabled:
            return True
        rates = self.rates
        records = self._bucket("written_records", shard_key, rates.written_records, now_ms)
        written = self._bucket("written_bytes", shard_key, rates.written_bytes, now_ms)
        # A record larger than the bucket needs a full one and leaves it in debt.
        needed = min(size_bytes, rates.written_bytes) if count == 1 else size_bytes
        if records.level < count or written.level < needed:
            return False
        records.level -= count
        written.level -= size_bytes
        return True

    def can_push(self, subscription_key: str, now_ms: int) -> bool:
        """Return true if a subscription has not used up its bytes per second."""
        rate = self.rates.pushed_bytes
        return not self.enabled or self._bucket("pushed", subscription_key, rate, now_ms).level > 0

    def count_pushed(self, subscription_key: str, size_bytes: int, now_ms: int) -> int:
        """Count the bytes of an event; return the time before which they delay the next one."""
        if not self.enabled:
            return now_ms
        rate = self.rates.pushed_bytes
        return self._bucket("pushed", subscription_key, rate, now_ms).take(size_bytes)

    def _bucket(self, what: str, key: str, rate: int, now_ms: int) -> _Bucket:
        bucket = self._buckets.get((what, key))
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[what, key] = _Bucket(rate, now_ms)
        if bucket.at_ms != now_ms:
            bucket.refill(now_ms)
        return bucket

    def _spend(self, what: str, key: str, rate: int, amount: int, now_ms: int) -> bool:
        bucket = self._bucket(what, key, rate, now_ms)
        if bucket.level < amount:
            return False
        bucket.level -= amount
        return True


def exceeded(message: str) -> Refusal:
    """Return the refusal for a shard whose limit is exceeded."""
    return Refusal("ProvisionedThroughputExceededException", message)
