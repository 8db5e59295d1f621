"""Positions in a shard: where reading starts, and what a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from shardline.errors import InvalidPosition

if TYPE_CHECKING:
    from shardline.core.shards import SequenceNumber


@dataclass(frozen=True, slots=True)
class TrimHorizon:
    """Before the oldest record that is still kept."""


@dataclass(frozen=True, slots=True)
class Latest:
    """After the newest record at the moment of opening."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """Before the first record that arrived at this time or later."""

    time: datetime

    def __post_init__(self) -> None:
        if self.time.tzinfo is None:
            raise InvalidPosition(
                f"{self.time.isoformat()} has no time zone: pass an aware datetime, "
                "for example datetime.now(timezone.utc)"
            )


@dataclass(frozen=True, slots=True)
class After:
    """After this record, or after one user record of an aggregated record."""

    sequence: SequenceNumber
    sub_sequence: int | None = None
    """The user record within an aggregated record, from 0. None: after the record as a whole."""


@dataclass(frozen=True, slots=True)
class ShardEnd:
    """After every record of a closed shard. Internal to shardline: never sent to a service."""


Position = TrimHorizon | Latest | AtTime | After | ShardEnd

TRIM_HORIZON: Final = TrimHorizon()
LATEST: Final = Latest()
SHARD_END: Final = ShardEnd()


def start_at(value: object) -> TrimHorizon | Latest | AtTime:
    """Return the start that a user names: either end in any case, an ISO time, or a datetime."""
    if isinstance(value, str):
        match value.strip().lower():
            case "trim_horizon":
                return TRIM_HORIZON
            case "latest":
                return LATEST
        try:
            return AtTime(datetime.fromisoformat(value.strip()))
        except InvalidPosition:
            raise InvalidPosition(f"{value!r} has no time zone: write {value.strip()}Z") from None
        except ValueError:
            pass
    time = plain_time(value)
    if isinstance(time, datetime):
        return AtTime(time)
    raise InvalidPosition(
        f"{value!r} is no start: write trim_horizon, latest, or a time such as 2026-11-15T12:00:00Z"
    )


def plain_time(value: Any) -> Any:
    """Return a time of the package arrow as the standard one; anything else as it is."""
    time = getattr(value, "datetime", None) if type(value).__name__ == "Arrow" else None
    return time if isinstance(time, datetime) else value
