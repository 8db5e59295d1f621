"""The lasting position of a shard that was opened at "latest"."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from shardline.core.positions import TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.services.cursor import ShardCursor
from shardline.services.pace import ShardPace
from shardline.services.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.pace import Quota
    from shardline.services.port import StreamService

_WINDOW: Final = timedelta(seconds=30)
"""Far more than the clocks of one service differ by, and little data."""

_PAGE_SIZE: Final = 10_000

_QUIET_SECONDS: Final = 2.0
"""How long a service that never names its tip must give nothing. If it had more, the position is
too early, and records from before "latest" come: none is lost."""


def find_last(
    service: StreamService,
    shard_id: str,
    service_time: datetime,
    quota: Quota,
    clock: Callable[[], float],
    pause: Callable[[float], object],
) -> Position:
    """Return the position after the newest record of a shard, by reading forward to its tip.

    In Kinesis the last half minute is read. DynamoDB Streams cannot open at a time, so the whole
    shard is read; a shard there is open for about four hours.
    """
    start: Position = AtTime(service_time - _WINDOW) if service.finds_times else TRIM_HORIZON
    cursor = ShardCursor(service, shard_id, start, pace=ShardPace(quota), clock=clock)
    last: Position | None = None
    quiet_since = clock()
    at_tip = False
    while not (at_tip or cursor.ended):
        page = run(cursor.read_steps(_PAGE_SIZE), sleep=pause)
        numbers = page.records.column("sequenceNumber")
        if len(numbers):
            last = After(SequenceNumber(numbers[len(numbers) - 1].as_py()))
            quiet_since = clock()
        elif page.behind_ms is None:
            at_tip = clock() - quiet_since >= _QUIET_SECONDS
        else:
            at_tip = page.behind_ms == 0
    if last is not None:
        return last
    # Nothing arrived in the window: a time in its middle is as good as a record.
    return AtTime(service_time - _WINDOW / 2) if service.finds_times else TRIM_HORIZON
