"""What a running query does, as one line for people and as figures for Prometheus."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shardline.core.offsets import Offset
from shardline.errors import ConfigurationError
from shardline.spark.process_metrics import DELIVERIES, LAGS, LEASES, age_of_tally, read_tally

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Figures:
    """One query at one moment, since its start unless said otherwise."""

    batch: int = -1
    """The newest one that is done."""
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    """How old the oldest unread record of each shard can be."""
    records: int = 0
    """Processed."""
    bytes: int = 0
    """Of those, in memory."""
    retries: int = 0
    dead_letters: int = 0
    joined: bool = True
    """Whether a first plan was made."""
    held: int = 0
    """Shards that are its own now: by their leases, or all of them without a lease table."""
    taken: int = 0
    lost: int = 0
    handed_over: int = 0
    completed: int = 0
    gaps: int = 0
    """On record in the newest batch."""


def figures(folder: Path, progress: Mapping[str, Any] | None) -> Figures:
    """Read the figures that the query's processes left in a folder, and Spark's own report."""
    lags, leases = read_tally(folder, LAGS), read_tally(folder, LEASES)
    deliveries = read_tally(folder, DELIVERIES)
    age = age_of_tally(folder, LAGS)  # nothing is looked at while a batch runs
    return Figures(
        batch=int(progress["batchId"]) if progress else -1,
        lag_seconds={shard_id: ms / 1000 + age for shard_id, ms in sorted(lags.items())},
        records=deliveries.get("processed", 0),
        bytes=deliveries.get("bytes", 0),
        retries=deliveries.get("retries", 0),
        dead_letters=deliveries.get("dead_letters", 0),
        joined=bool(leases or lags),
        held=leases.get("held", len(lags)),
        taken=leases.get("taken", 0),
        lost=leases.get("lost", 0),
        handed_over=leases.get("handed_over", 0),
        completed=leases.get("completed", 0),
        gaps=_gaps_in(progress),
    )


class Metrics:
    """The figures of one query."""

    def __init__(self, query: StreamingQuery, folder: Path) -> None:
        self._query = query
        self._folder = folder
        self._records = 0
        self._since = time.monotonic()

    def read(self) -> Figures:
        """Read what is known now."""
        return figures(self._folder, _plain(self._query.lastProgress))

    def line(self) -> str:
        """Write one line; what is zero and need not be said is left out."""
        now, at = self.read(), time.monotonic()
        rate = (now.records - self._records) / max(at - self._since, 0.001)
        self._records, self._since = now.records, at
        return line_of(now, rate)

    def serve(self, port: int) -> None:
        """Serve the figures to Prometheus on loopback."""
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise ConfigurationError(
                "metrics for Prometheus need: pip install 'shardline[metrics]'"
            ) from error
        registry = CollectorRegistry()
        registry.register(_Collector(self))
        start_http_server(port, addr="127.0.0.1", registry=registry)


def line_of(now: Figures, records_per_second: float) -> str:
    """Write figures as one line."""
    worst = max(now.lag_seconds.values(), default=0.0)
    if not now.joined:
        return "starting"
    parts = [
        _counted(now.held, "shard") if now.held else "nothing to do, the others hold every shard",
        f"{records_per_second:,.0f} records/s",
        f"{now.records:,} in all",
        f"at most {worst:.1f} s behind",
    ]
    rare = [
        (now.completed, "shard", " done"),
        (now.handed_over, "lease", " handed over"),
        (now.lost, "lease", " lost"),
        (now.retries, "retry", ""),
        (now.dead_letters, "dead letter", ""),
        (now.gaps, "gap", ""),
    ]
    parts.extend(_counted(count, what) + more for count, what, more in rare if count)
    return " · ".join(parts)


def _counted(count: int, what: str) -> str:
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else many}"


_GAUGES: Final = {
    "held": ("shardline_leases_held", "Leases held now"),
    "batch": ("shardline_batch", "Newest batch that is done"),
    "gaps": ("shardline_gaps", "Gaps on record"),
}
_COUNTERS: Final = {
    "records": ("shardline_records", "Records processed"),
    "bytes": ("shardline_bytes", "Bytes processed"),
    "retries": ("shardline_retries", "Times that a consumer was tried again"),
    "dead_letters": ("shardline_dead_letters", "Records put aside"),
    "taken": ("shardline_leases_taken", "Leases taken"),
    "lost": ("shardline_leases_lost", "Leases lost"),
    "handed_over": ("shardline_leases_handed_over", "Leases handed over"),
    "completed": ("shardline_shards_completed", "Shards processed to their end"),
}


class _Collector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Any:
        """Make the families anew at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now = self._metrics.read()
        lag = GaugeMetricFamily(
            "shardline_lag_seconds", "Age that an unread record can have", labels=["shard"]
        )
        for shard_id, seconds in now.lag_seconds.items():
            lag.add_metric([shard_id], seconds)
        yield lag
        for figure, (name, what) in _GAUGES.items():
            yield GaugeMetricFamily(name, what, getattr(now, figure))
        for figure, (name, what) in _COUNTERS.items():
            yield CounterMetricFamily(name, what, getattr(now, figure))


def _gaps_in(progress: Mapping[str, Any] | None) -> int:
    sources = progress.get("sources") if progress else None
    end = sources[0].get("endOffset") if sources else None
    if not end:
        return 0
    return len(Offset.from_json(json.loads(end) if isinstance(end, str) else end).gaps)


def _plain(progress: Any) -> dict[str, Any] | None:
    """Return Spark's report as plain values: a dictionary, or an object that writes one."""
    if progress is None:
        return None
    return json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
