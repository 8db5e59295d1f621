"""What a running query does, as one line for people and as figures for Prometheus."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shardline.core.offsets import Offset
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Figures:
    """One query at one moment."""

    batch: int
    records: int
    """In the last batch."""
    records_per_second: float
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    """How old the oldest unread record of each shard can be."""
    gaps: int = 0


def figures(progress: Mapping[str, Any] | None, now: datetime) -> Figures:
    """Read the figures out of what Spark reports of a batch."""
    if not progress or not progress.get("sources"):
        return Figures(-1, 0, 0.0)
    source = progress["sources"][0]
    end = source.get("endOffset")
    offset = Offset.from_json(json.loads(end) if isinstance(end, str) else end) if end else None
    lag = {
        shard_id: max(0.0, (now - item.as_of).total_seconds())
        for shard_id, item in (offset.ranges if offset else {}).items()
        if item.as_of is not None
    }
    return Figures(
        batch=int(progress["batchId"]),
        records=int(source.get("numInputRows") or 0),
        records_per_second=float(source.get("processedRowsPerSecond") or 0.0),
        lag_seconds=lag,
        gaps=len(offset.gaps) if offset else 0,
    )


class Metrics:
    """The figures of one query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._total = 0
        self._seen_batch = -1
        self._since = time.monotonic()

    def read(self) -> Figures:
        """Read what Spark last reported."""
        return figures(_progress(self._query.lastProgress), datetime.now(UTC))

    def line(self) -> str:
        """Write one line: shards, rate, lag, gaps."""
        fresh = [
            p for p in map(_progress, self._query.recentProgress) if p["batchId"] > self._seen_batch
        ]
        count = sum(figures(p, datetime.now(UTC)).records for p in fresh)
        if fresh:
            self._seen_batch = max(p["batchId"] for p in fresh)
        self._total += count
        seconds, self._since = time.monotonic() - self._since, time.monotonic()
        now = self.read()
        worst = max(now.lag_seconds.values(), default=0.0)
        parts = [
            f"{len(now.lag_seconds)} shards",
            f"{count / seconds:,.0f} records/s" if seconds else "–",
            f"{self._total:,} in all",
            f"at most {worst:.1f} s behind",
        ]
        if now.gaps:
            parts.append(f"{now.gaps} gaps")
        return " · ".join(parts)

    def serve(self, port: int) -> None:
        """Serve the figures to Prometheus on loopback."""
        try:
            from prometheus_client import REGISTRY, start_http_server
        except ImportError as error:
            raise ConfigurationError(
                "metrics for Prometheus need: pip install 'shardline[metrics]'"
            ) from error
        REGISTRY.register(_Collector(self))
        start_http_server(port, addr="127.0.0.1")


class _Collector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Any:
        """Make the families anew at each scrape."""
        from prometheus_client.core import GaugeMetricFamily

        now = self._metrics.read()
        lag = GaugeMetricFamily(
            "shardline_lag_seconds", "Age that an unread record can have", labels=["shard"]
        )
        for shard_id, seconds in now.lag_seconds.items():
            lag.add_metric([shard_id], seconds)
        yield lag
        yield GaugeMetricFamily("shardline_leases_held", "Shards planned", len(now.lag_seconds))
        yield GaugeMetricFamily("shardline_batch", "Last batch", now.batch)
        yield GaugeMetricFamily("shardline_batch_records", "Records in it", now.records)
        yield GaugeMetricFamily(
            "shardline_records_per_second", "Processed by the last batch", now.records_per_second
        )
        yield GaugeMetricFamily("shardline_gaps", "Gaps on record", now.gaps)


def _progress(progress: Any) -> dict[str, Any]:
    """Return Spark's report as plain values: a dictionary, or an object that writes one."""
    if progress is None:
        return {}
    return json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
