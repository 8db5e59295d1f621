"""Reads sharded, resharding streams in order, through every split, merge, crash and hand-over."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardline.spark.consumer import DeadLetter as DeadLetter
    from shardline.spark.consumer import Halt as Halt
    from shardline.spark.consumer import Retry as Retry
    from shardline.spark.consumer import ShardBatch as ShardBatch
    from shardline.spark.consumer import ShardConsumer as ShardConsumer
    from shardline.streams.engine import Engine as Engine
    from shardline.streams.models import Model as Model
    from shardline.streams.models import key as key
    from shardline.streams.records import DynamoDBRecord as DynamoDBRecord
    from shardline.streams.records import KinesisRecord as KinesisRecord
    from shardline.streams.records import Record as Record
    from shardline.streams.stream import Stream as Stream
    from shardline.streams.stream import stream as stream

# Found on first use: a Spark executor needs none of what the others import.
_HOMES = {
    "DeadLetter": "shardline.spark.consumer",
    "DynamoDBRecord": "shardline.streams.records",
    "Engine": "shardline.streams.engine",
    "Halt": "shardline.spark.consumer",
    "KinesisRecord": "shardline.streams.records",
    "Model": "shardline.streams.models",
    "Record": "shardline.streams.records",
    "Retry": "shardline.spark.consumer",
    "ShardBatch": "shardline.spark.consumer",
    "ShardConsumer": "shardline.spark.consumer",
    "Stream": "shardline.streams.stream",
    "key": "shardline.streams.models",
    "stream": "shardline.streams.stream",
}

__all__ = [
    "DeadLetter",
    "DynamoDBRecord",
    "Engine",
    "Halt",
    "KinesisRecord",
    "Model",
    "Record",
    "Retry",
    "ShardBatch",
    "ShardConsumer",
    "Stream",
    "key",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'shardline' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
