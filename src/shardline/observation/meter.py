"""The rate at which records arrive in each shard, measured by reading from the tip on."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shardline.core.positions import LATEST
from shardline.errors import ShardlineError
from shardline.services.cursor import ShardCursor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.core.shards import Shard
    from shardline.services.port import StreamService

logger = logging.getLogger(__name__)

_CONNECTIONS: Final = 8
_PAGE: Final = 10_000
_SMOOTHING: Final = 0.5
"""The weight of the newest count; smooths a rate that would change with every measurement."""


@dataclass(slots=True)
class _Gauge:
    cursor: ShardCursor
    counted_at: float
    per_second: float | None = None


class Meter:
    """Reads every open shard once per measurement: one of the five reads a second it allows."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._gauges: dict[str, _Gauge] = {}
        self._executor = ThreadPoolExecutor(_CONNECTIONS, "shardline-meter")

    def count(self, shards: Iterable[Shard], now: float) -> dict[str, float]:
        """Read each open shard from where it was left, and return the known rates by shard."""
        open_ids = [shard.id for shard in shards if not shard.closed]
        self._gauges = {
            shard_id: self._gauges.get(shard_id)
            or _Gauge(ShardCursor(self._service, shard_id, LATEST), now)
            for shard_id in open_ids
        }
        list(self._executor.map(lambda gauge: self._read(gauge, now), self._gauges.values()))
        return {
            shard_id: gauge.per_second
            for shard_id, gauge in self._gauges.items()
            if gauge.per_second is not None
        }

    def close(self) -> None:
        """Stop the threads."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _read(self, gauge: _Gauge, now: float) -> None:
        if gauge.cursor.ended:
            return
        try:
            count = gauge.cursor.read(_PAGE).records.num_rows
        except ShardlineError as error:
            logger.warning("%s is not measured now: %s", gauge.cursor.shard_id, error)
            return
        seconds = now - gauge.counted_at
        if seconds <= 0:  # the first read only sets the position to count from
            return
        newest = count / seconds
        before = newest if gauge.per_second is None else gauge.per_second
        gauge.per_second = before + _SMOOTHING * (newest - before)
        gauge.counted_at = now
