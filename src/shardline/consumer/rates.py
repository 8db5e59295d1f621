"""How fast a worker processes each stream, for its heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.leasing.own_heartbeat import Summary

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shardline.consumer.messages import Counts, PipelineKey, Pulse


class Rates:
    """Turns counts since the start of a runner into rates over the last seconds."""

    def __init__(self) -> None:
        self._lag_ms: dict[PipelineKey, int] = {}
        self._last: dict[str, tuple[float, Counts]] = {}

    def acknowledged(self, key: PipelineKey, lag_ms: int | None) -> None:
        """Record the lag of a shard."""
        if lag_ms is not None:
            self._lag_ms[key] = lag_ms

    def summaries(
        self, pulse: Pulse, running: Collection[PipelineKey], now: float
    ) -> dict[str, Summary]:
        """Return a summary for each stream from the runner's newest counts."""
        self._lag_ms = {key: lag for key, lag in self._lag_ms.items() if key in running}
        waiting_ms = {key: wait for key, wait in pulse.waiting_ms.items() if key in running}
        return {
            name: self._summary(name, count, waiting_ms, now)
            for name, count in pulse.counts.items()
        }

    def _summary(
        self, stream_name: str, count: Counts, waiting_ms: Mapping[PipelineKey, int], now: float
    ) -> Summary:
        """Return one stream's. What a shard was behind grows while it does not move."""
        lags = [
            self._lag_ms.get(key, 0) + waiting_ms.get(key, 0)
            for key in {*self._lag_ms, *waiting_ms}
            if key.stream_name == stream_name
        ]
        then, before = self._last.get(stream_name, (now, count))
        self._last[stream_name] = (now, count)
        seconds = now - then
        new_runner = count.records < before.records
        moved = seconds > 0 and not new_runner
        return Summary(
            lag_ms=max(lags, default=None),
            records_per_second=round((count.records - before.records) / seconds) if moved else 0,
            bytes_per_second=round((count.bytes - before.bytes) / seconds) if moved else 0,
            retries=count.retries,
            dead_letters=count.dead_letters,
        )
