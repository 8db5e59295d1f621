"""A token of `shardline.stream` as the beginning of a query: it goes on exactly there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from shardline.core.checkpoints import damage_named, position_from_json, read_document
from shardline.core.offsets import Mark, Offset, Range

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def offset_of_token(token: str) -> Offset:
    """Return the offset at which a token's stream stands; nothing of it is left to resolve."""
    body = read_document("token", token)
    with damage_named("token"):
        return Offset(
            start=position_from_json(body["start"]),
            created_at=datetime.fromisoformat(body["created_at"]),
            ranges={shard["id"]: _range(shard) for shard in body["shards"]},
            drained={str(shard_id): Mark(None, _LONG_AGO) for shard_id in body["drained"]},
        )


def _range(shard: dict[str, str]) -> Range:
    position = position_from_json(shard["position"])
    as_of = datetime.fromisoformat(shard["as_of"]) if "as_of" in shard else None
    return Range(position, position, as_of)
