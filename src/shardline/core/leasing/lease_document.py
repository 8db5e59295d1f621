"""An app's leases on a stream as a document: what `shardline leases export` writes.

It holds checkpoints, and neither owners nor heartbeats: an imported app starts without workers.
Epochs are kept, so that fences go on rising in the new table.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from shardline.core.checkpoints import (
    Json,
    damage_named,
    position_from_json,
    position_to_json,
    read_document,
    write_document,
)
from shardline.core.leasing.rows import Header, LeaseRow

if TYPE_CHECKING:
    from collections.abc import Iterable

_KIND: Final = "leases"


def to_document(header: Header, rows: Iterable[LeaseRow]) -> str:
    """Return the leases of an app on a stream as JSON text."""
    return write_document(
        _KIND,
        {
            "app": header.app_name,
            "stream": header.stream_name,
            "stream_created_at": header.stream_created_at.isoformat(),
            "start": position_to_json(header.start),
            "latest": header.latest,
            "settled": header.settled,
            "moves": header.moves,
            "began_at": header.began_at.isoformat() if header.began_at else None,
            "shards": [_shard(row) for row in sorted(rows, key=lambda row: row.shard_id)],
        },
    )


@damage_named(_KIND)
def from_document(text: str) -> tuple[Header, tuple[LeaseRow, ...]]:
    """Return the header and the free rows of a document."""
    body = read_document(_KIND, text)
    began_at = body.get("began_at")  # earlier releases wrote none
    header = Header(
        body["app"],
        body["stream"],
        datetime.fromisoformat(body["stream_created_at"]),
        position_from_json(body["start"]),
        settled=body["settled"],
        moves=int(body["moves"]),
        latest=body["latest"],
        began_at=began_at and datetime.fromisoformat(began_at),
    )
    return header, tuple(_row(header, shard) for shard in body["shards"])


def for_app(
    header: Header, rows: Iterable[LeaseRow], app: str
) -> tuple[Header, tuple[LeaseRow, ...]]:
    """Return the same leases under the name of another app."""
    return replace(header, app_name=app), tuple(replace(row, app_name=app) for row in rows)


def _shard(row: LeaseRow) -> Json:
    return {
        "shard": row.shard_id,
        "parents": list(row.parents),
        "checkpoint": position_to_json(row.checkpoint),
        "as_of": _time(row.as_of),
        "completed": row.completed,
        "epoch": row.epoch,
        "lease_count": row.lease_count,
        "gap": row.gap,
        "halted": row.halted,
        "unlisted_since": _time(row.unlisted_since),
    }


def _row(header: Header, shard: dict[str, Any]) -> LeaseRow:
    as_of, unlisted_since = shard["as_of"], shard["unlisted_since"]
    return LeaseRow(
        header.app_name,
        header.stream_name,
        shard["shard"],
        header.stream_created_at,
        parents=tuple(shard["parents"]),
        lease_count=int(shard["lease_count"]),
        epoch=int(shard["epoch"]),
        checkpoint=position_from_json(shard["checkpoint"]),
        as_of=datetime.fromisoformat(as_of) if as_of else None,
        completed=bool(shard["completed"]),
        gap=shard["gap"],
        unlisted_since=datetime.fromisoformat(unlisted_since) if unlisted_since else None,
        halted=shard["halted"],
    )


def _time(time: datetime | None) -> str | None:
    return time.isoformat() if time else None
