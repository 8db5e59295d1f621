"""Reading through the port until something known has come, with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from shardline.services.cursor import ShardCursor

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.core.positions import Position
    from shardline.services.port import StreamService

DEADLINE_SECONDS: Final = 120
_PAUSE_SECONDS: Final = 0.02


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, or fail saying what did not happen."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s: {what}"
        time.sleep(_PAUSE_SECONDS)


def rows_of(cursor: ShardCursor, count: int, page: int = 1000) -> list[dict[str, Any]]:
    """Read until this many rows have come, or the shard ends."""
    rows: list[dict[str, Any]] = []

    def enough() -> bool:
        if not cursor.ended:
            rows.extend(cursor.read(page).records.to_pylist())
        return cursor.ended or len(rows) >= count

    wait_until(enough, f"{count} records from {cursor.shard_id}")
    return rows


def rows_from(
    service: StreamService, shard_id: str, position: Position, count: int, page: int = 1000
) -> list[dict[str, Any]]:
    """Read this many rows of a shard from a position on."""
    return rows_of(ShardCursor(service, shard_id, position), count, page)


def rows_to_end(
    service: StreamService, shard_id: str, position: Position, page: int = 1000
) -> list[dict[str, Any]]:
    """Read a closed shard from a position to its end."""
    cursor = ShardCursor(service, shard_id, position)
    rows: list[dict[str, Any]] = []

    def ended() -> bool:
        rows.extend(cursor.read(page).records.to_pylist())
        return cursor.ended

    wait_until(ended, f"the end of {shard_id}")
    return rows
