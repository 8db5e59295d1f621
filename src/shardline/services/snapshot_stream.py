"""A table and then its changes, as one stream: the table's segments are shards before all others.

The segments of a parallel scan are listed as closed shards, and as the parents of every shard that
has no other parent listed. So they are leased, read, checkpointed and completed as shards are, by
any number of workers, and no change is read before the whole table was processed. The stream is
read from a time before the first scan, so that nothing is missed; an item that changed meanwhile
comes once more as a change, and the newest image wins.
"""

from __future__ import annotations

import binascii
import time
from base64 import b64decode
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from shardline.core.positions import After, AtTime, Position, ShardEnd
from shardline.core.shards import SEQUENCE_DIGITS, SequenceNumber, Shard
from shardline.errors import ConfigurationError, InvalidPosition, ServiceError, Throttled
from shardline.services.port import Page, StreamDescription
from shardline.services.service_clock import ServiceClock
from shardline.services.wire.columns import DYNAMODB_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.services.calls import Calls
    from shardline.services.port import StreamService

EVENT_NAME: Final = "SNAPSHOT"
"""The `eventName` of an item that was read from the table."""

MARGIN: Final = timedelta(minutes=2)
"""DynamoDB may cut creation times to the whole minute: changes are read from this much earlier."""

_MOST_ITEMS: Final = 1_000
_MOST_SEGMENTS: Final = 9_999
_ORDINAL_DIGITS: Final = 15
_KEY_DIGITS: Final = SEQUENCE_DIGITS - _ORDINAL_DIGITS
_MOST_KEY_BYTES: Final = 46
"""So many bytes fit into the digits that are left, after a first byte of 1."""


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """How a table is read."""

    segments: int = 4
    """How many parts of the table are read side by side. Keep it until the table was read."""
    units_per_second: float | None = None
    """The most read capacity units that all segments together use; None for no limit."""

    def __post_init__(self) -> None:
        if not 1 <= self.segments <= _MOST_SEGMENTS:
            raise ConfigurationError(
                f"{self.segments} segments of a table: pass 1 to {_MOST_SEGMENTS:,}"
            )
        if self.units_per_second is not None and not self.units_per_second > 0:
            raise ConfigurationError(f"{self.units_per_second} units a second: pass more than 0")


class _Place(NamedTuple):
    """Where the next page of a segment starts."""

    segment: int
    ordinal: int
    """The number of the next item in the segment."""
    key: list[str] | None
    """The values of the key before it; None at the beginning."""


class SnapshotStream:
    """The stream of a table, with the items of the table before it."""

    finds_times = False
    columns: pa.Schema = DYNAMODB_COLUMNS

    def __init__(
        self,
        stream: StreamService,
        calls: Calls,
        table: str,
        settings: SnapshotSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the table with calls of a DynamoDB client, which this object owns from now on."""
        self._stream = stream
        self._calls = calls
        self._table = table
        self._settings = settings
        self._clock = clock
        self._service_clock = ServiceClock()
        self._units: dict[int, tuple[float, float]] = {}
        """For each segment: when it was first read here, and the units that it took since."""
        count = settings.segments
        self._segments = {f"snapshot-{n:04d}-of-{count:04d}": n for n in range(count)}

    def describe(self) -> StreamDescription:
        """Describe the stream of the table."""
        return self._stream.describe()

    def list_shards(self) -> tuple[Shard, ...]:
        """List the segments, then every shard: a root comes after all segments."""
        shards = self._stream.list_shards()
        listed = {shard.id for shard in shards}
        roots = {shard.id for shard in shards if not listed.intersection(shard.parents)}
        return (
            *(Shard(i, (), None, _BOUNDS[0], _BOUNDS[1]) for i in self._segments),
            *(
                replace(s, parents=(*s.parents, *self._segments)) if s.id in roots else s
                for s in shards
            ),
        )

    def list_children(self, shard_id: str) -> tuple[Shard, ...]:
        """List the children of a shard: the roots, for a segment."""
        if shard_id not in self._segments:
            return self._stream.list_children(shard_id)
        return tuple(shard for shard in self.list_shards() if shard_id in shard.parents)

    def has_shard(self, shard_id: str) -> bool:
        """Return true for a segment, and for a shard that the service has."""
        return shard_id in self._segments or self._stream.has_shard(shard_id)

    def open(self, shard_id: str, position: Position) -> str:
        """Return an iterator at a position.

        A segment goes on after the key of the position's item. A key that is too long for its
        number is not known any more: the segment then starts again, and its items are repeated.
        """
        segment = self._segments.get(shard_id)
        if segment is None:
            return self._stream.open(shard_id, position)
        if isinstance(position, AtTime | ShardEnd):
            raise InvalidPosition(f"{shard_id}: a segment of a table opens at no such position")
        if not isinstance(position, After):
            return _iterator(_Place(segment, 1, None))
        ordinal, key = _number_parts(position.sequence)
        return _iterator(_Place(segment, ordinal + 1, key))

    def read(self, iterator: str, max_records: int) -> Page:
        """Read one page of a segment or of a shard."""
        if not iterator.startswith(_PREFIX):
            return self._stream.read(iterator, max_records)
        place = _place(iterator)
        self._require_pace(place.segment)
        response, read_at = self._service_clock.ask(
            partial(self._scan, place, min(max_records, _MOST_ITEMS))
        )
        items: list[dict[str, Any]] | None = response.get("Items")
        if items is None:
            raise ServiceError(f"dynamodb://{self._table}: an answer without items: trying again")
        self._count_units(place.segment, response)
        rest = response.get("LastEvaluatedKey")
        following = place._replace(
            ordinal=place.ordinal + len(items), key=None if rest is None else self._values_of(rest)
        )
        return Page(
            self._rows(items, place.ordinal, read_at),
            None if rest is None else _iterator(following),
            None,
            (),
            read_at,
        )

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()
        self._stream.close()

    # --- the table ----------------------------------------------------------------------------

    @cached_property
    def _key_kinds(self) -> dict[str, str]:
        """The key attributes, the hash key first, with their kinds: S, N or B."""
        table = self._calls.call("describe_table", TableName=self._table)["Table"]
        kinds = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}
        names = [each["AttributeName"] for each in table["KeySchema"]]
        return {name: kinds[name] for name in names}

    def _scan(self, place: _Place, limit: int) -> dict[str, Any]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "ReturnConsumedCapacity": "TOTAL",
            "Segment": place.segment,
            "TotalSegments": self._settings.segments,
            "Limit": limit,
        }
        if place.key is not None:
            request["ExclusiveStartKey"] = {
                name: {kind: b64decode(value) if kind == "B" else value}
                for (name, kind), value in zip(self._key_kinds.items(), place.key, strict=True)
            }
        return self._calls.call("scan", retry_throttled=False, **request)

    def _values_of(self, item: dict[str, Any]) -> list[str]:
        """Return the values of an item's key as texts."""
        values = [item[name][kind] for name, kind in self._key_kinds.items()]
        return [binascii.b2a_base64(v, newline=False).decode() if isinstance(v, bytes) else v
                for v in values]  # fmt: skip

    def _rows(self, items: list[dict[str, Any]], ordinal: int, read_at: datetime) -> pa.RecordBatch:
        images = [msgspec.json.encode(item).decode() for item in items]
        keys = [{name: item[name] for name in self._key_kinds} for item in items]
        columns: dict[str, list[Any]] = {
            "eventID": [""] * len(items),
            "eventName": [EVENT_NAME] * len(items),
            "eventVersion": [""] * len(items),
            "keys": [msgspec.json.encode(key).decode() for key in keys],
            "oldImage": [None] * len(items),
            "newImage": images,
            "sequenceNumber": [
                _number(ordinal + n, self._values_of(key)) for n, key in enumerate(keys)
            ],
            "approximateCreationDateTime": [read_at] * len(items),
            "sizeBytes": [len(image) for image in images],
            "userIdentity": [None] * len(items),
        }
        return pa.RecordBatch.from_pydict(columns, schema=DYNAMODB_COLUMNS)

    # --- the pace -----------------------------------------------------------------------------

    def _require_pace(self, segment: int) -> None:
        """Raise `Throttled` if the segment has used more than its share of the units so far."""
        limit = self._settings.units_per_second
        if limit is None or segment not in self._units:
            return
        since, units = self._units[segment]
        if units > limit / self._settings.segments * (self._clock() - since):
            raise Throttled(f"dynamodb://{self._table}: the scan is kept at {limit} units a second")

    def _count_units(self, segment: int, response: dict[str, Any]) -> None:
        since, units = self._units.get(segment, (self._clock(), 0.0))
        units += response.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
        self._units[segment] = since, units


_PREFIX: Final = "snapshot|"
_BOUNDS: Final = (SequenceNumber("0"), SequenceNumber("9" * SEQUENCE_DIGITS))


def _iterator(place: _Place) -> str:
    return _PREFIX + msgspec.json.encode(place).decode()


def _place(iterator: str) -> _Place:
    return msgspec.json.decode(iterator.removeprefix(_PREFIX), type=_Place)


def _number(ordinal: int, key: list[str]) -> str:
    """Return the number of an item: its place in the segment, and its key if that is short."""
    encoded = msgspec.json.encode(key)
    held = int.from_bytes(b"\x01" + encoded) if len(encoded) <= _MOST_KEY_BYTES else 0
    return f"{ordinal:0{_ORDINAL_DIGITS}d}{held:0{_KEY_DIGITS}d}"


def _number_parts(number: SequenceNumber) -> tuple[int, list[str] | None]:
    """Return the ordinal and the key that `_number` put into a number."""
    ordinal, held = divmod(int(number), 10**_KEY_DIGITS)
    encoded = held.to_bytes(_MOST_KEY_BYTES + 1).lstrip(b"\0")[1:]
    return ordinal, msgspec.json.decode(encoded, type=list[str]) if encoded else None
