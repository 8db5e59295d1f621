"""The token: a stream's position in all its shards as JSON, enough to resume exactly there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from shardline.core.checkpoints import (
    Json,
    damage_named,
    position_from_json,
    position_to_json,
    read_document,
    write_document,
)
from shardline.core.lineage import marks_in_use
from shardline.core.positions import LATEST, TRIM_HORIZON, AtTime, Latest, TrimHorizon, plain_time
from shardline.errors import InvalidPosition
from shardline.streams.ledger import Ledger, Place, Start

if TYPE_CHECKING:
    from shardline.services.port import StreamDescription

KIND: Final = "token"


def parse_start(position: object) -> Start | None:
    """Return the start that a position names; None if the position may be a token."""
    match position := plain_time(position):
        case str() if position.lower() == "trim_horizon":
            return TRIM_HORIZON
        case str() if position.lower() == "latest":
            return LATEST
        case datetime():
            return AtTime(position)
        case dict():
            return None
        case str() if position.lstrip().startswith("{"):
            return None
    raise InvalidPosition(
        f'not a position: {position!r:.80}: pass "trim_horizon", "latest", an aware datetime '
        "or a token of this stream"
    )


def to_token(ledger: Ledger, stream: StreamDescription) -> dict[str, Any]:
    """Return the token of a ledger, without the drained shards that lineage no longer needs."""
    ledger.inherit_as_of()
    shards: list[Json] = []
    for shard_id, place in sorted(ledger.places.items(), key=lambda item: item[1].clock):
        shard: dict[str, Json] = {"id": shard_id, "position": position_to_json(place.position)}
        if place.as_of is not None:
            shard["as_of"] = place.as_of.isoformat()
        shards.append(shard)
    drained = sorted(marks_in_use(ledger.listed, ledger.drained))
    left_at = {
        s: at.isoformat() for s in drained if (at := ledger.drained_as_of.get(s)) is not None
    }
    body: dict[str, Json] = {
        "stream": stream.arn,
        "created_at": _timestamp(stream.created_at),
        "start": position_to_json(ledger.start),
        "shards": shards,
        "drained": list[Json](drained),
        "left_at": dict[str, Json](left_at),
    }
    token: dict[str, Any] = json.loads(write_document(KIND, body))
    return token


def from_token(token: object, stream: StreamDescription) -> Ledger:
    """Return the ledger of a token. Raises `InvalidPosition` unless it is of this very stream."""
    body = read_document(KIND, token)
    if body.get("stream") != stream.arn:
        owner = str(body.get("stream"))[:150]
        raise InvalidPosition(f"this token belongs to {owner}, not to {stream.arn}")
    with damage_named(KIND):
        made_at = datetime.fromisoformat(body["created_at"])
    if _whole_ms(made_at) != _whole_ms(stream.created_at):
        raise InvalidPosition(
            f"this token is of a stream {stream.name} that was made at {body.get('created_at')}; "
            f'the one of now was made at {_timestamp(stream.created_at)}: start at "trim_horizon"'
        )
    with damage_named(KIND):
        start = position_from_json(body["start"])
        shards = enumerate(_list(body["shards"]))
        places = {_text(shard["id"]): _place(clock, shard) for clock, shard in shards}
        drained = [_text(shard_id) for shard_id in _list(body["drained"])]
        left_at = {s: datetime.fromisoformat(at) for s, at in body["left_at"].items()}
    if not isinstance(start, TrimHorizon | Latest | AtTime):
        raise InvalidPosition("this token is damaged: its start is no start")
    return Ledger(start, places, drained, left_at)


def _place(clock: int, shard: dict[str, Any]) -> Place:
    position = position_from_json(shard["position"])
    if isinstance(position, Latest):
        raise InvalidPosition('this token is damaged: "latest" is no place to go on from')
    as_of = position.time if isinstance(position, AtTime) else None
    if "as_of" in shard:
        as_of = datetime.fromisoformat(shard["as_of"])
    return Place(clock, position, as_of)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a list is something else")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is no text")
    return value


def _whole_ms(time: datetime) -> datetime:
    """Return a time cut to its millisecond, which is all that an offset of Spark keeps."""
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def _timestamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
