"""What may be acknowledged, and the versioned JSON in which positions are kept."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, TypeAlias

from shardline.core.positions import (
    LATEST,
    SHARD_END,
    TRIM_HORIZON,
    After,
    AtTime,
    Latest,
    Position,
    ShardEnd,
    TrimHorizon,
)
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition

Json: TypeAlias = str | int | float | bool | list["Json"] | dict[str, "Json"] | None

VERSION: Final = 1
"""Of every document that this module writes. Raise it when an older reader would misread one."""

_NAMED: Final[dict[str, Position]] = {
    "trim_horizon": TRIM_HORIZON,
    "latest": LATEST,
    "shard_end": SHARD_END,
}


def position_to_json(position: Position) -> Json:
    """Write a position as plain JSON."""
    match position:
        case TrimHorizon():
            return "trim_horizon"
        case Latest():
            return "latest"
        case ShardEnd():
            return "shard_end"
        case AtTime(time):
            return {"at_time": time.isoformat()}
        case After(sequence, None):
            return {"after": sequence.text}
        case After(sequence, sub_sequence):
            return {"after": sequence.text, "sub": sub_sequence}


def position_from_json(value: object) -> Position:
    """Read what `position_to_json` wrote."""
    match value:
        case str() if value in _NAMED:
            return _NAMED[value]
        case {"at_time": str(text), **rest} if not rest:
            try:
                return AtTime(datetime.fromisoformat(text))
            except ValueError as error:
                raise InvalidPosition(f"not an aware time in a position: {text!r}") from error
        case {"after": str(text), **rest} if not rest:
            return After(SequenceNumber(text))
        case {"after": str(text), "sub": int(sub), **rest} if not rest and type(sub) is int:
            return After(SequenceNumber(text), sub)
    raise InvalidPosition(f"not a position of shardline: {json.dumps(value, default=repr):.80}")


def write_document(kind: str, body: dict[str, Json]) -> str:
    """Write a versioned document with sorted keys: equal contents are equal texts."""
    document = {"shardline": kind, "version": VERSION, **body}
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def read_document(kind: str, text_or_value: object) -> dict[str, Any]:
    """Read a document of this kind, or say what it is instead."""
    value = text_or_value
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise InvalidPosition(f"not a {kind} of shardline: {value:.60}… is no JSON") from error
    if not isinstance(value, dict) or "shardline" not in value:
        raise InvalidPosition(
            f"not a {kind} of shardline: it lacks the field 'shardline'. "
            "Was it written by another tool?"
        )
    if value["shardline"] != kind:
        raise InvalidPosition(f"this is the {value['shardline']} of shardline, not a {kind}")
    version = value.get("version")
    if version != VERSION:
        raise InvalidPosition(
            f"this {kind} has version {version!r} and this shardline reads version {VERSION}: "
            "use the release that wrote it, or start from a position"
        )
    return {key: item for key, item in value.items() if key not in {"shardline", "version"}}


def further(current: Position | None, proposed: Position) -> Position:
    """Return the checkpoint to keep: it never moves back, and the end of a shard is final."""
    match current, proposed:
        case ShardEnd(), _:
            return SHARD_END
        case After(), TrimHorizon() | Latest() | AtTime():
            return current
        case After(), After():
            return max(current, proposed, key=_progress)
        case _:
            return proposed


def _progress(position: After) -> tuple[SequenceNumber, bool, int]:
    whole = position.sub_sequence is None
    return (position.sequence, whole, 0 if whole else position.sub_sequence or 0)
