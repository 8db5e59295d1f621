"""The lasting position of a shard that was opened at "latest"."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.positions import TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.services.cursor import ShardCursor
from shardline.streams.shard_buffer import EMPTY_PAGES_TO_TIP

if TYPE_CHECKING:
    from shardline.services.port import StreamService

_WINDOW: Final = timedelta(seconds=30)
"""Far more than the clocks of one service differ by, and little data."""

_PAGE_SIZE: Final = 10_000


def find_last(service: StreamService, shard_id: str, service_time: datetime) -> Position:
    """Return the position after the newest record of a shard, by reading forward to its tip.

    In Kinesis the last half minute is read. DynamoDB Streams cannot open at a time, so the whole
    shard is read; a shard there is open for about four hours.
    """
    start: Position = AtTime(service_time - _WINDOW) if service.finds_times else TRIM_HORIZON
    cursor = ShardCursor(service, shard_id, start)
    last: Position | None = None
    empty_pages = 0
    at_tip = False
    while not (at_tip or cursor.ended):
        page = cursor.read(_PAGE_SIZE)
        numbers = page.records.column("sequenceNumber")
        if len(numbers):
            last = After(SequenceNumber(numbers[len(numbers) - 1].as_py()))
        empty_pages = 0 if len(numbers) else empty_pages + 1
        at_tip = not len(numbers) and page.behind_ms == 0
        if page.behind_ms is None:
            at_tip = empty_pages >= EMPTY_PAGES_TO_TIP
    if last is not None:
        return last
    # Nothing arrived in the window: a time in its middle is as good as a record.
    return AtTime(service_time - _WINDOW / 2) if service.finds_times else TRIM_HORIZON
