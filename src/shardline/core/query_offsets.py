"""The offset of a query: that of its stream, or of each of its streams by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shardline.core.checkpoints import VERSION, damage_named, read_document
from shardline.core.offsets import KIND, Offset
from shardline.errors import InvalidPosition

SEVERAL: Final = "offsets"
"""The kind of the document that holds the offsets of several streams."""


def to_json(offsets: Mapping[str, Offset]) -> dict[str, Any]:
    """Write the offsets of a query's streams; of one stream, it is that stream's own."""
    if len(offsets) == 1:
        return next(iter(offsets.values())).to_json()
    streams = {name: offsets[name].to_json() for name in sorted(offsets)}
    return {"shardline": SEVERAL, "streams": streams, "version": VERSION}


@damage_named("offset")
def from_json(value: Any, names: Sequence[str], first: Offset) -> dict[str, Offset]:
    """Read the offsets of the named streams; one that was not named before begins at `first`."""
    written = streams_in(value)
    if len(names) == 1 and written.keys() == {None}:
        return {names[0]: written[None]}
    by_name = {name or stream_name(offset): offset for name, offset in written.items()}
    left_out = sorted(by_name.keys() - set(names))
    if left_out:
        raise InvalidPosition(
            f"the checkpoint is of {', '.join(left_out)} too: name all of its streams, or start "
            "with a new checkpointLocation"
        )
    return {name: by_name.get(name, first) for name in names}


def streams_in(value: Any) -> dict[str | None, Offset]:
    """Return the offsets in a document by stream; by None, where the query reads but one."""
    if not isinstance(value, dict) or value.get("shardline") != SEVERAL:
        return {None: Offset.from_json(value)}
    body = read_document(SEVERAL, value)
    return {name: Offset.from_json(item) for name, item in body["streams"].items()}


def is_ours(value: Any) -> bool:
    """Return true if a document is the offset of a query of this source."""
    return isinstance(value, dict) and value.get("shardline") in (KIND, SEVERAL)


def stream_name(offset: Offset) -> str:
    """Return the name of an offset's stream or table, from its ARN."""
    return offset.stream.split("/")[1] if offset.stream else "a stream"
