"""Reads sharded, resharding streams in order, through every split, merge, crash and hand-over."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; a test holds it to _MODULES
    from shardline.consumer.consumer import ShardBatch as ShardBatch
    from shardline.consumer.consumer import ShardConsumer as ShardConsumer
    from shardline.consumer.policies import DeadLetter as DeadLetter
    from shardline.consumer.policies import Halt as Halt
    from shardline.consumer.policies import Retry as Retry
    from shardline.core.writes.repeats import RepeatFilter as RepeatFilter
    from shardline.services.put.writer import PutResult as PutResult
    from shardline.services.put.writer import Writer as Writer
    from shardline.services.put.writer import put as put
    from shardline.services.put.writer import writer as writer
    from shardline.services.records import DynamoDBRecord as DynamoDBRecord
    from shardline.services.records import KinesisRecord as KinesisRecord
    from shardline.services.records import Record as Record
    from shardline.streams.stream import Stream as Stream
    from shardline.streams.stream import stream as stream
    from shardline.tables.engine import Engine as Engine
    from shardline.tables.models import Model as Model
    from shardline.tables.models import key as key

_MODULES = {
    "DeadLetter": "shardline.consumer.policies",
    "DynamoDBRecord": "shardline.services.records",
    "Engine": "shardline.tables.engine",
    "Halt": "shardline.consumer.policies",
    "KinesisRecord": "shardline.services.records",
    "Model": "shardline.tables.models",
    "PutResult": "shardline.services.put.writer",
    "Record": "shardline.services.records",
    "RepeatFilter": "shardline.core.writes.repeats",
    "Retry": "shardline.consumer.policies",
    "ShardBatch": "shardline.consumer.consumer",
    "ShardConsumer": "shardline.consumer.consumer",
    "Stream": "shardline.streams.stream",
    "Writer": "shardline.services.put.writer",
    "key": "shardline.tables.models",
    "put": "shardline.services.put.writer",
    "stream": "shardline.streams.stream",
    "writer": "shardline.services.put.writer",
}
"""The public names. Each is imported at first use: no program needs what all of them import."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shardline.errors import optional_import

    with optional_import(f"shardline.{name}"):
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
