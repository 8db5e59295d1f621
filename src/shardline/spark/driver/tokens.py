"""Tokens of `shardline.stream` and offsets of a query: each goes on exactly where the other stands.

`token_of` runs in the user's program, and takes the offset from the query's progress.
"""

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
from shardline.core.offsets import Mark, Offset, Range
from shardline.core.positions import ShardEnd
from shardline.core.query_offsets import is_ours, stream_name, streams_in
from shardline.errors import ShardlineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def token_of(query: StreamingQuery, stream: str | None = None) -> dict[str, Any]:
    """Return where a query stands after its last committed batch, as a token.

    `shardline.stream(address, token)` goes on exactly there, and so does another query with the
    JSON of the token as its `startingPosition`. Of a query that reads several streams, `stream` is
    the name of one of them.
    """
    progress = query.lastProgress
    sources = progress.sources if progress is not None else []
    offsets = [found for source in sources for found in offsets_in(source.endOffset)]
    names = ", ".join(name for name, _ in offsets)
    if stream is not None:
        offsets = [(name, offset) for name, offset in offsets if stream in (name, offset.stream)]
        if names and not offsets:
            raise ShardlineError(f"this query does not read {stream}, but {names}")
    elif len(offsets) > 1:
        raise ShardlineError(f"a token is of one stream: pass stream= with one of {names}")
    if not offsets or offsets[0][1].created_at is None:
        raise ShardlineError("this query has committed no batch yet: nothing to go on from")
    offset = offsets[0][1]
    if offset.table is not None and not offset.table.finished:
        raise ShardlineError("this query still reads the table: a token is of a stream, ask later")
    return token_of_offset(offset)


def offsets_in(written: Any) -> list[tuple[str, Offset]]:
    """Return the offsets in a progress report by stream; none if the source is not ours."""
    value = json.loads(written) if isinstance(written, str) else written
    if not is_ours(value):
        return []
    return [(name or stream_name(offset), offset) for name, offset in streams_in(value).items()]


def token_of_offset(offset: Offset) -> dict[str, Any]:
    """Return the token of a stream that stands at an offset, which must be resolved."""
    if offset.stream is None or offset.created_at is None:
        raise ShardlineError(
            "this offset was written by an earlier release: run the query for a batch, then ask"
        )
    drained = {shard_id: mark.as_of for shard_id, mark in offset.drained.items()}
    shards: list[Json] = []
    # The ids rise in the order in which shards were made.
    for shard_id, item in sorted(offset.ranges.items()):
        if isinstance(item.upto, ShardEnd):
            drained[shard_id] = item.as_of
            continue
        shard: dict[str, Json] = {"id": shard_id, "position": position_to_json(item.upto)}
        if item.as_of is not None:
            shard["as_of"] = item.as_of.isoformat()
        shards.append(shard)
    left_at = {s: at.isoformat() for s, at in drained.items() if at is not None}
    body: dict[str, Json] = {
        "stream": offset.stream,
        "created_at": offset.created_at.isoformat(),
        "start": position_to_json(offset.start),
        "shards": shards,
        "drained": list[Json](sorted(drained)),
        "left_at": dict[str, Json](left_at),
    }
    token: dict[str, Any] = json.loads(write_document("token", body))
    return token


def offset_of_token(token: str) -> Offset:
    """Return the offset at which a token's stream stands; nothing of it is left to resolve."""
    body = read_document("token", token)
    with damage_named("token"):
        left_at = {s: datetime.fromisoformat(at) for s, at in body.get("left_at", {}).items()}
        return Offset(
            start=position_from_json(body["start"]),
            created_at=datetime.fromisoformat(body["created_at"]),
            ranges={shard["id"]: _range(shard) for shard in body["shards"]},
            drained={str(s): Mark(left_at.get(s), _LONG_AGO) for s in body["drained"]},
            stream=str(body["stream"]),
        )


def _range(shard: dict[str, str]) -> Range:
    position = position_from_json(shard["position"])
    as_of = datetime.fromisoformat(shard["as_of"]) if "as_of" in shard else None
    return Range(position, position, as_of)
