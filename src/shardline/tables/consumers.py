"""Typed changes for consumers: what turns the records of a batch into `batch.changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.errors import ConfigurationError
from shardline.services.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardline.consumer.consumer import ChangeOf, ShardConsumer


def change_reader(consumer: ShardConsumer, streams: str | Sequence[str]) -> ChangeOf | None:
    """Return what reads a record as a change of the consumer's model; None without a model."""
    model: type[Any] | None = consumer.model
    if model is None:
        return None
    from shardline.tables.changes import ChangeReader
    from shardline.tables.shapes import Shape

    addresses = [parse_address(s) for s in ([streams] if isinstance(streams, str) else streams)]
    foreign = next((a for a in addresses if a.service != "dynamodb"), None)
    if foreign is not None:
        raise ConfigurationError(
            f"{type(consumer).__name__} has a model, and {foreign} is no stream of a table: "
            "write dynamodb://TABLE, or leave the model out"
        )
    table = addresses[0].name
    Shape(model, table)  # a class that is no model shows here
    return ChangeReader(model, table)
