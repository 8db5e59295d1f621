"""What a consumer is, and what a batch gives it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.consumer.policies import Retry
from shardline.core.fences import Fence
from shardline.errors import ConfigurationError
from shardline.services.records import DynamoDBRecord, KinesisRecord
from tests.unit.consumer.shard_pages import SHARD, changes, page


class Smallest(ShardConsumer):
    def process(self, batch: ShardBatch) -> None:
        pass


def test_one_method_is_enough() -> None:
    consumer = pickle.loads(pickle.dumps(Smallest()))  # noqa: S301
    assert (consumer.model, consumer.lanes, consumer.failure) == (None, 1, Retry())
    consumer.shard_started(SHARD, Fence(1, 1))
    consumer.record_failed(None, ValueError())
    for hook in (consumer.shard_ended, consumer.shard_released, consumer.lease_lost):
        hook(SHARD)


def test_process_must_be_there() -> None:
    with pytest.raises(TypeError, match="process"):
        type("Nothing", (ShardConsumer,), {})()


def test_a_batch_gives_records_of_either_service() -> None:
    batch = ShardBatch(SHARD, Fence(1, 2), page(("a", 1), ("b", 2)))
    first, second = batch.records
    assert isinstance(first, KinesisRecord)
    assert (first.shard_id, first.partition_key, second.data) == (SHARD, "a", b"2")
    assert len(batch) == 2
    (change,) = ShardBatch(SHARD, Fence(1, 2), changes('{"id":{"S":"a"}}')).records
    assert isinstance(change, DynamoDBRecord)
    assert change.keys == {"id": {"S": "a"}}


def test_changes_are_typed_by_the_function_that_was_passed_in() -> None:
    def change_of(record: DynamoDBRecord) -> Any:
        return record.keys["id"]["S"]

    arrow = changes('{"id":{"S":"a"}}', '{"id":{"S":"b"}}')
    assert list(ShardBatch(SHARD, Fence(1, 2), arrow, change_of).changes) == ["a", "b"]
    with pytest.raises(ConfigurationError, match="model"):
        _ = ShardBatch(SHARD, Fence(1, 2), arrow).changes


def test_a_batch_knows_when_its_lease_is_gone() -> None:
    gone: list[bool] = []
    batch = ShardBatch(SHARD, Fence(1, 2), page(("a", 1)), None, lambda: bool(gone))
    before = batch.cancelled
    gone.append(True)
    assert (before, batch.cancelled) == (False, True)
    assert not ShardBatch(SHARD, Fence(1, 2), page()).cancelled
