"""The offset of a batch: everything that a restart needs, and nothing that an executor wrote."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from shardline.core.checkpoints import (
    VERSION,
    Json,
    damage_named,
    position_from_json,
    position_to_json,
    read_document,
)
from shardline.core.gaps import Gap
from shardline.core.positions import SHARD_END, After, Position, ShardEnd
from shardline.core.shard_sets import pack_ids, unpack_ids
from shardline.core.shards import SequenceNumber
from shardline.core.table_progress import TableProgress
from shardline.errors import InvalidPosition

KIND: Final = "offset"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_HOUR_MS: Final = 3_600_000
_END: Final = "end"
_PACKED_FROM: Final = 200
"""With more shards than this the places are compressed: every batch writes all of them."""


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one shard in one batch: after `after`, up to and including `upto`."""

    after: Position
    upto: Position
    """A record that certainly exists; or `after` itself, for none; or the end of the shard."""
    as_of: datetime | None = None
    """Nothing after `upto` arrived before this time. None: not known."""

    @property
    def empty(self) -> bool:
        """Return true if no record can be in it."""
        return self.after == self.upto

    @property
    def ends(self) -> bool:
        """Return true if it is read on until the service says that the shard is over."""
        return isinstance(self.upto, ShardEnd) and not self.empty


@dataclass(frozen=True, slots=True)
class Mark:
    """A shard that was delivered to its end."""

    as_of: datetime | None
    """Nothing in its children arrived before this time; None: that is not needed any more."""
    listed_at: datetime
    """When the service last listed it, in whole hours: the mark outlives that by the retention."""


@dataclass(frozen=True)
class Offset:
    """Where a query stands when its batch is committed, and what that batch holds."""

    start: Position
    """Where the query was asked to start."""
    created_at: datetime | None = None
    """When the stream was made: another one under the same name differs in this. None: nothing
    has been resolved yet."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Every shard that is not drained, those without records in this batch included."""
    drained: Mapping[str, Mark] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    stream: str | None = None
    """The ARN of the stream; None: nothing has been resolved yet."""
    table: TableProgress | None = None
    """How much of the table was read, of a query that starts with that; None: no table is read."""

    def to_json(self) -> dict[str, Any]:
        """Write as JSON whose keys are sorted all the way down, since Spark compares the text."""
        document: dict[str, Any] = {
            "created_at": _to_ms(self.created_at),
            "drained": _marks_to_json(self.drained),
            "gaps": [
                {
                    "after": _place(gap.after),
                    "reason": gap.reason,
                    "shard": gap.shard_id,
                    "since": _to_ms(gap.since),
                    "until": _to_ms(gap.until),
                }
                for gap in self.gaps
            ],
            "shardline": KIND,
            "shards": _ranges_to_json(self.ranges),
            "start": position_to_json(self.start),
            "stream": self.stream,
            "version": VERSION,
        }
        if self.table is not None:
            document["table"] = self.table.to_json()
        return dict(sorted(document.items()))

    @classmethod
    @damage_named(KIND)
    def from_json(cls, value: object) -> Offset:
        """Read what `to_json` wrote."""
        body = read_document(KIND, value)
        try:
            return cls(
                start=position_from_json(body["start"]),
                created_at=_from_ms(body["created_at"]),
                ranges=MappingProxyType(_ranges_from_json(body["shards"])),
                drained=MappingProxyType(_marks_from_json(body["drained"])),
                gaps=tuple(_gap_from_json(item) for item in body["gaps"]),
                stream=body.get("stream"),  # offsets of before have none
                table=TableProgress.from_json(table) if (table := body.get("table")) else None,
            )
        except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
            raise InvalidPosition(
                f"this offset was damaged, or written by another release: {error!r:.80}. Start "
                "with a new checkpointLocation"
            ) from error


def whole_hour(time: datetime) -> datetime:
    """Return a time cut to its hour, so that many marks have the same."""
    return time.replace(minute=0, second=0, microsecond=0)


def _ranges_to_json(ranges: Mapping[str, Range]) -> Json:
    plain: dict[str, Json] = {}
    for shard_id in sorted(ranges):
        item = ranges[shard_id]
        places: list[Json] = [_place(item.after)]
        if not item.empty:
            places.append(_place(item.upto))
        plain[shard_id] = [*places, _to_ms(item.as_of)]
    if len(plain) <= _PACKED_FROM:
        return plain
    text = json.dumps(plain, separators=(",", ":"))
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def _ranges_from_json(value: Any) -> dict[str, Range]:
    if isinstance(value, str):
        value = json.loads(zlib.decompress(base64.b85decode(value)))
    ranges: dict[str, Range] = {}
    for shard_id, (*places, as_of) in value.items():
        after, upto = _position(places[0]), _position(places[-1])
        ranges[shard_id] = Range(after, upto, _from_ms(as_of))
    return ranges


def _marks_to_json(marks: Mapping[str, Mark]) -> Json:
    """Group marks that are alike: of most, only the id is left to know."""
    alike: dict[tuple[int, int], list[str]] = {}
    for shard_id, mark in marks.items():
        as_of, listed_at = _to_ms(mark.as_of), _to_ms(mark.listed_at) or 0
        alike.setdefault((-1 if as_of is None else as_of, listed_at), []).append(shard_id)
    groups: list[Json] = []
    for as_of, listed_at in sorted(alike):
        packed: list[Json] = [*pack_ids(alike[as_of, listed_at])]
        groups.append([None if as_of == -1 else as_of, listed_at // _HOUR_MS, packed])
    return groups


def _marks_from_json(value: Any) -> dict[str, Mark]:
    return {
        shard_id: Mark(_from_ms(as_of), _EPOCH + timedelta(hours=hours))
        for as_of, hours, packed in value
        for shard_id in unpack_ids(packed)
    }


def _gap_from_json(item: Any) -> Gap:
    return Gap(
        shard_id=item["shard"],
        after=_position(item["after"]),
        since=_from_ms(item["since"]) or _EPOCH,
        until=_from_ms(item["until"]) or _EPOCH,
        reason=item["reason"],
    )


def _place(position: Position) -> Json:
    """Write a position briefly: most are sequence numbers."""
    match position:
        case After(sequence, None):
            return sequence.text
        case After(sequence, sub_sequence):
            return f"{sequence.text}/{sub_sequence}"
        case ShardEnd():
            return _END
    return position_to_json(position)


def _position(value: Any) -> Position:
    if value == _END:
        return SHARD_END
    if isinstance(value, str) and value[:1].isdigit():
        number, _, sub_sequence = value.partition("/")
        return After(SequenceNumber(number), int(sub_sequence) if sub_sequence else None)
    return position_from_json(value)


def _to_ms(time: datetime | None) -> int | None:
    # Rounded down: an earlier time claims less.
    return None if time is None else (time - _EPOCH) // _MILLISECOND


def _from_ms(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)
