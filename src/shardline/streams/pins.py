"""The lasting position of a shard that was opened at "latest"."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from shardline.core.positions import TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.services.cursor import ShardCursor
from shardline.services.pace import ShardPace
from shardline.services.records import times_of
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


class LastPlaces(NamedTuple):
    """Two places near the tip of a shard that was opened at "latest" some time ago."""

    newest: Position
    """After the newest record: the place of "latest" if nothing has arrived since."""
    certain: Position
    """After the newest record that has certainly arrived before."""


def find_last(
    service: StreamService,
    shard_id: str,
    opened_after: datetime,
    quota: Quota,
    clock: Callable[[], float],
    pause: Callable[[float], object],
) -> LastPlaces:
    """Find the places by reading forward to the tip; what came before `opened_after` is certain.

    In Kinesis the half minute before is read. DynamoDB Streams cannot open at a time, so the whole
    shard is read; a shard there is open for about four hours.
    """
    start: Position = AtTime(opened_after - _WINDOW) if service.finds_times else TRIM_HORIZON
    # If nothing arrived in the window, a time in its middle is as good as a record.
    middle: Position = AtTime(opened_after - _WINDOW / 2) if service.finds_times else TRIM_HORIZON
    newest = certain = middle
    cursor = ShardCursor(service, shard_id, start, pace=ShardPace(quota), clock=clock)
    limit = int(opened_after.timestamp() * 1e6)
    quiet_since = clock()
    at_tip, all_certain = False, True
    while not (at_tip or cursor.ended):
        page = run(cursor.read_steps(_PAGE_SIZE), sleep=pause)
        numbers = page.records.column("sequenceNumber")
        if len(numbers):
            newest = After(SequenceNumber(numbers[len(numbers) - 1].as_py()))
            if all_certain:
                later = np.flatnonzero(times_of(page.records) >= limit)
                before = int(later[0]) if later.size else len(numbers)
                certain = After(SequenceNumber(numbers[before - 1].as_py())) if before else certain
                all_certain = not later.size
            quiet_since = clock()
        elif page.behind_ms is None:
            at_tip = clock() - quiet_since >= _QUIET_SECONDS
        else:
            at_tip = page.behind_ms == 0
    return LastPlaces(newest, certain)
