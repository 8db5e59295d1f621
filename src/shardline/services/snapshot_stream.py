"""A table and then its changes, as one stream: the table's segments are shards before all others.

The segments of a parallel scan are listed as closed shards, and as the parents of every shard that
has no other parent listed. So they are leased, read, checkpointed and completed as shards are, by
any number of workers, and no change is read before the whole table was processed. The stream is
read from a time before the first scan, so that nothing is missed; an item that changed meanwhile
comes once more as a change, and the newest image wins.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from shardline.core.positions import After, AtTime, Position, ShardEnd
from shardline.core.shards import SEQUENCE_DIGITS, SequenceNumber, Shard
from shardline.errors import ConfigurationError, InvalidPosition, Throttled
from shardline.services.port import Page, StreamDescription
from shardline.services.table_scan import ScanPace, ScanPage, TableScan
from shardline.services.wire.columns import DYNAMODB_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.port import StreamService

EVENT_NAME: Final = "SNAPSHOT"
"""The `eventName` of an item that was read from the table."""

MARGIN: Final = timedelta(minutes=2)
"""DynamoDB may cut creation times to the whole minute: changes are read from this much earlier."""

DEFAULT_SEGMENTS: Final = 4

_MOST_ITEMS: Final = 1_000
MOST_SEGMENTS: Final = 9_999
_ORDINAL_DIGITS: Final = 15
_KEY_DIGITS: Final = SEQUENCE_DIGITS - _ORDINAL_DIGITS
_MOST_KEY_BYTES: Final = 46
"""So many bytes fit into the digits that are left, after a first byte of 1."""


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """How a table is read."""

    segments: int = DEFAULT_SEGMENTS
    """How many parts of the table are read side by side. Keep it until the table was read."""
    units_per_second: float | None = None
    """The most read capacity units that all segments together use; None for no limit."""

    def __post_init__(self) -> None:
        if not 1 <= self.segments <= MOST_SEGMENTS:
            raise ConfigurationError(
                f"{self.segments} segments of a table: pass 1 to {MOST_SEGMENTS:,}"
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

    def __init__(
        self,
        stream: StreamService,
        scan: TableScan,
        units_per_second: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the table with a scan, which this object owns from now on."""
        self._stream = stream
        self._scan = scan
        self._units_per_second = units_per_second
        self._clock = clock
        self._paces: dict[int, ScanPace] = {}
        """Of each segment that is read here: others may be read elsewhere."""
        self._segments = {segment_name(n, scan.segments): n for n in range(scan.segments)}

    def describe(self) -> StreamDescription:
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
        pace = self._pace_of(place.segment)
        if pace.wait_seconds():
            raise Throttled(
                f"dynamodb://{self._scan.table}: the scan is kept at {self._units_per_second} "
                "units a second"
            )
        page = self._scan.page(place.segment, place.key, min(max_records, _MOST_ITEMS))
        pace.spent(page.units)
        following = place._replace(ordinal=place.ordinal + len(page.items), key=page.rest)
        return Page(
            table_rows(self._scan, page, place.ordinal),
            None if page.rest is None else _iterator(following),
            None,
            (),
            page.read_at,
        )

    def close(self) -> None:
        self._scan.close()
        self._stream.close()

    def _pace_of(self, segment: int) -> ScanPace:
        """Return the pace of a segment: its share of what all segments together may use."""
        if segment not in self._paces:
            limit = self._units_per_second
            share = None if limit is None else limit / self._scan.segments
            self._paces[segment] = ScanPace(share, lambda: self._clock())
        return self._paces[segment]


def segment_name(segment: int, segments: int) -> str:
    """Return the name of a segment, which stands where a shard's id does."""
    return f"snapshot-{segment:04d}-of-{segments:04d}"


def table_rows(scan: TableScan, page: ScanPage, ordinal: int) -> pa.RecordBatch:
    """Return the items of a page as records; `ordinal` is the first one's place in its segment."""
    count = len(page.items)
    images = [msgspec.json.encode(item).decode() for item in page.items]
    columns: dict[str, list[Any]] = {
        "eventID": [""] * count,
        "eventName": [EVENT_NAME] * count,
        "eventVersion": [""] * count,
        "keys": [msgspec.json.encode(key).decode() for key in page.keys],
        "oldImage": [None] * count,
        "newImage": images,
        "sequenceNumber": [
            _number(ordinal + n, scan.values_of(key)) for n, key in enumerate(page.keys)
        ],
        "approximateCreationDateTime": [page.read_at] * count,
        "sizeBytes": [len(image) for image in images],
        "userIdentity": [None] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=DYNAMODB_COLUMNS)


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
