"""How positions are stored: as JSON, as text, in versioned documents; and which of two is kept."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
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
"""Of every document written here. Raise it when an older reader would misread one."""

_NAMED: Final[dict[str, Position]] = {
    "trim_horizon": TRIM_HORIZON,
    "latest": LATEST,
    "shard_end": SHARD_END,
}


def position_to_json(position: Position) -> Json:
    """Return a position as plain JSON."""
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
    """Return the position that `position_to_json` gave this JSON for."""
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
            if sub >= -1:  # -1 is before the first user record
                return After(SequenceNumber(text), sub)
    raise InvalidPosition(f"not a position of shardline: {json.dumps(value, default=repr):.80}")


def position_to_text(position: Position) -> str:
    """Return a position as text: the checkpoint or the start in a lease table."""
    return json.dumps(position_to_json(position), sort_keys=True, separators=(",", ":"))


def position_from_text(text: str) -> Position:
    """Return the position that `position_to_text` gave this text for."""
    return position_from_json(_parsed(text, "position"))


def write_document(kind: str, body: dict[str, Json]) -> str:
    """Return a versioned document with sorted keys: equal contents give equal texts."""
    document = {"shardline": kind, "version": VERSION, **body}
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def read_document(kind: str, text_or_value: object) -> dict[str, Any]:
    """Return the body of a document of this kind, or raise an error that says what it is."""
    value = _parsed(text_or_value, kind) if isinstance(text_or_value, str) else text_or_value
    if not isinstance(value, dict) or "shardline" not in value:
        raise InvalidPosition(
            f"not a {kind} of shardline: it lacks the field 'shardline'. "
            "Was it written by another tool?"
        )
    if value["shardline"] != kind:
        raise InvalidPosition(f"this is the {value['shardline']!s:.40} of shardline, not a {kind}")
    version = value.get("version")
    if version != VERSION:
        raise InvalidPosition(
            f"this {kind} has version {version!r:.20} and this shardline reads version {VERSION}: "
            "use the release that wrote it, or start from a position"
        )
    return {key: item for key, item in value.items() if key not in {"shardline", "version"}}


_DAMAGE: Final = (
    *(LookupError, TypeError, ValueError, AttributeError, OverflowError),
    zlib.error,
)


@contextmanager
def damage_named(kind: str) -> Iterator[None]:
    """Turn whatever a damaged document of this kind raises into one line. Also a decorator."""
    try:
        yield
    except InvalidPosition:
        raise
    except _DAMAGE as error:
        raise InvalidPosition(f"this {kind} is damaged: {error!r:.80}") from error


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


def _parsed(text: str, kind: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPosition(f"not a {kind} of shardline: {text[:60]!r}… is not JSON") from error
