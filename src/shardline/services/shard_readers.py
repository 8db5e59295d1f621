"""Chooses how a shard is read: by a subscription where its stream has one, else by polling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.services.clock import boot_seconds
from shardline.services.cursor import ShardCursor
from shardline.services.fan_out.cursor import FanOutCursor
from shardline.services.fan_out.port import PushService

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.core.positions import Position
    from shardline.services.pace import ShardPace
    from shardline.services.port import ShardReader, StreamService


def shard_reader(
    service: StreamService,
    shard_id: str,
    position: Position,
    *,
    pace: ShardPace | None = None,
    patience_seconds: float = 120.0,
    wait_seconds: float = 0.0,
    clock: Callable[[], float] = boot_seconds,
) -> ShardReader:
    """Return a reader of one shard. The pace is that of polling; nothing else depends on it.

    A reader with a subscription waits for `wait_seconds` before it returns an empty page.
    """

    def poll_from(place: Position) -> ShardCursor:
        return ShardCursor(
            service, shard_id, place, pace=pace, patience_seconds=patience_seconds, clock=clock
        )

    if isinstance(service, PushService):
        return FanOutCursor(
            service, shard_id, position, poll_from, wait_seconds=wait_seconds, clock=clock
        )
    return poll_from(position)
