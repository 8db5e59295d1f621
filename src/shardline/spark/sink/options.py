"""The options and columns of the sink, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import BinaryType, IntegralType, StringType, StructType

from shardline.errors import ConfigurationError
from shardline.services.addresses import parse_address
from shardline.spark.option_names import KINESIS_SINK, by_our_names
from shardline.spark.options import (
    Connection,
    OptionValues,
    read_access,
    read_address,
    read_duration,
)

KEY: Final = "partitionKey"
DATA: Final = "data"
HASH_KEY: Final = "explicitHashKey"
_TYPES: Final = {
    KEY: (StringType,),
    DATA: (BinaryType, StringType),
    HASH_KEY: (StringType,),
}
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of every streaming query, which Spark hands to its sink as well."""
_DEFAULT_GIVE_UP_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Sink:
    """Where and how to write. It travels to the executors, so it never holds a secret."""

    connection: Connection
    aggregate: bool
    dedupe_columns: tuple[str, ...]
    """Columns that together rise with each row of a key."""
    give_up_seconds: float
    has_hash_keys: bool


def read_sink(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> Sink:
    """Read the options and columns of a sink, or raise a `ConfigurationError` of one line."""
    ours = {name: value for name, value in given.items() if name.lower() not in _OF_SPARK}
    values = OptionValues(by_our_names(KINESIS_SINK, ours))
    if overwrite:
        raise ConfigurationError(
            'a stream cannot be overwritten: write with .mode("append"), or outputMode "append"'
        )
    dedupe = tuple(filter(None, map(str.strip, (values.get("dedupeColumns") or "").split(","))))
    _check_columns(schema, dedupe)
    address = read_address(KINESIS_SINK, values, "write")
    parse_address(address)
    return Sink(
        Connection(address, read_access(values)),
        aggregate=values.get_as("aggregation", _aggregation, False),
        dedupe_columns=dedupe,
        give_up_seconds=values.get_as("giveUpAfter", read_duration, _DEFAULT_GIVE_UP_SECONDS),
        has_hash_keys=HASH_KEY in schema.names,
    )


def _check_columns(schema: StructType, dedupe: tuple[str, ...]) -> None:
    for name in (KEY, DATA, *dedupe):
        if name not in schema.names:
            raise ConfigurationError(
                f"the rows have no column {name}: select {KEY}, {DATA} and, if you like, {HASH_KEY}"
                + (", and what dedupeColumns names" if dedupe else "")
            )
    for column in schema:
        kinds = _TYPES.get(column.name) or (
            (IntegralType, StringType) if column.name in dedupe else None
        )
        if kinds is None:
            raise ConfigurationError(
                f"a record has no place for column {column.name}: put it into {DATA}, or select "
                f"only {KEY}, {DATA} and, if you like, {HASH_KEY}"
            )
        if not isinstance(column.dataType, kinds):
            wanted = " or ".join(kind.typeName() for kind in kinds)
            raise ConfigurationError(
                f"column {column.name} is {column.dataType.simpleString()}: cast it to {wanted}"
            )


def _aggregation(text: str) -> bool:
    if text.strip().lower() not in ("none", "kpl"):
        raise ConfigurationError(f"{text!r} is neither none nor kpl")
    return text.strip().lower() == "kpl"
