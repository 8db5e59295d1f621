"""The offset of a batch: everything that a restart needs, and nothing that an executor wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from shardline.core.checkpoints import (
    VERSION,
    Json,
    damage_named,
    position_from_json,
    position_to_json,
    read_document,
)
from shardline.core.positions import Position, ShardEnd

if TYPE_CHECKING:
    from collections.abc import Mapping

KIND: Final = "offset"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one shard in one batch: behind `after`, up to and including `upto`."""

    after: Position
    upto: Position
    """A record that certainly exists; or `after` itself, for none; or the end of the shard."""
    as_of: datetime | None = None
    """Nothing behind `upto` arrived before this time. None: nothing is claimed, because the
    consumer asked for whatever is still kept."""
    epoch: int = 0

    @property
    def empty(self) -> bool:
        """Say whether no record can be in it."""
        return self.after == self.upto

    @property
    def ends(self) -> bool:
        """Say whether it is read on until the service says that the shard is over."""
        return isinstance(self.upto, ShardEnd) and not self.empty


@dataclass(frozen=True, slots=True)
class Mark:
    """A shard that is behind us for good."""

    as_of: datetime | None
    """Nothing in its children arrived before this time."""
    listed_at: datetime
    """When the service last listed it: the mark outlives that by the retention."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that the service may have dropped before they were delivered, and that we went on."""

    shard_id: str
    after: Position
    since: datetime | None
    noticed_at: datetime
    reason: str


@dataclass(frozen=True)
class Offset:
    """Where a query stands when its batch is committed, and what that batch holds."""

    start: Position
    """What the query was asked to begin at."""
    created_at: datetime | None = None
    """When the stream was made: another one under the same name differs in this. None: nothing
    has been resolved yet."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Every shard that is not behind us, those without records in this batch included."""
    drained: Mapping[str, Mark] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Write as JSON whose keys are sorted all the way down, since Spark compares the text."""
        return {
            "created_at": _to_ms(self.created_at),
            "drained": {
                shard_id: [_to_ms(mark.as_of), _to_ms(mark.listed_at)]
                for shard_id, mark in sorted(self.drained.items())
            },
            "gaps": [
                {
                    "after": position_to_json(gap.after),
                    "noticed_at": _to_ms(gap.noticed_at),
                    "reason": gap.reason,
                    "shard": gap.shard_id,
                    "since": _to_ms(gap.since),
                }
                for gap in self.gaps
            ],
            "shardline": KIND,
            "shards": {
                shard_id: _range_to_json(self.ranges[shard_id]) for shard_id in sorted(self.ranges)
            },
            "start": position_to_json(self.start),
            "version": VERSION,
        }

    @classmethod
    @damage_named(KIND)
    def from_json(cls, value: object) -> Offset:
        """Read what `to_json` wrote."""
        body = read_document(KIND, value)
        return cls(
            start=position_from_json(body["start"]),
            created_at=_from_ms(body["created_at"]),
            ranges=MappingProxyType(
                {shard_id: _range_from_json(item) for shard_id, item in body["shards"].items()}
            ),
            drained=MappingProxyType(
                {
                    shard_id: Mark(_from_ms(as_of), _from_ms(listed_at) or _EPOCH)
                    for shard_id, (as_of, listed_at) in body["drained"].items()
                }
            ),
            gaps=tuple(
                Gap(
                    shard_id=item["shard"],
                    after=position_from_json(item["after"]),
                    since=_from_ms(item["since"]),
                    noticed_at=_from_ms(item["noticed_at"]) or _EPOCH,
                    reason=item["reason"],
                )
                for item in body["gaps"]
            ),
        )


def _range_to_json(item: Range) -> Json:
    after, as_of = position_to_json(item.after), _to_ms(item.as_of)
    if item.empty:
        return {"after": after, "as_of": as_of, "epoch": item.epoch}
    return {
        "after": after,
        "as_of": as_of,
        "end": item.ends,
        "epoch": item.epoch,
        "upto": position_to_json(item.upto),
    }


def _range_from_json(value: dict[str, Any]) -> Range:
    after = position_from_json(value["after"])
    upto = position_from_json(value["upto"]) if "upto" in value else after
    return Range(after, upto, _from_ms(value["as_of"]), value["epoch"])


def _to_ms(time: datetime | None) -> int | None:
    # Rounded down: an earlier time claims less.
    return None if time is None else (time - _EPOCH) // _MILLISECOND


def _from_ms(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)
