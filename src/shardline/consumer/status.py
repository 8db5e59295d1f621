"""What a run does, read from the lease table: one line for people, figures for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shardline.core.leasing.rows import Heartbeat, LeaseRow


@dataclass(frozen=True, slots=True)
class Figures:
    """A run at one moment."""

    workers: int = 0
    """Workers that were asked for."""
    started: int = 0
    """Workers that have written a heartbeat."""
    held: int = 0
    """Shards that they hold."""
    records_per_second: int = 0
    bytes_per_second: int = 0
    lag_seconds: float | None = None
    """The longest lag of their shards; None before it is known."""
    retries: int = 0
    dead_letters: int = 0
    shards: int = 0
    """Shards of the app that are not completed, whoever holds them."""
    completed: int = 0
    halted: int = 0
    gaps: int = 0


def figures_of(workers: int, beats: Iterable[Heartbeat], rows: Iterable[LeaseRow]) -> Figures:
    """Sum up the heartbeats of a run's workers and the rows of its app."""
    beats, rows = list(beats), list(rows)
    owners = {beat.worker for beat in beats}
    lags = [beat.lag_ms for beat in beats if beat.lag_ms is not None]
    return Figures(
        workers=workers,
        started=len(owners),
        held=sum(row.lease_owner in owners for row in rows),
        records_per_second=sum(beat.records_per_second for beat in beats),
        bytes_per_second=sum(beat.bytes_per_second for beat in beats),
        lag_seconds=max(lags) / 1000 if lags else None,
        retries=sum(beat.retries for beat in beats),
        dead_letters=sum(beat.dead_letters for beat in beats),
        shards=sum(not row.completed for row in rows),
        completed=sum(row.completed for row in rows),
        halted=sum(bool(row.halted) for row in rows),
        gaps=sum(bool(row.gap) for row in rows),
    )


def line_of(now: Figures) -> str:
    """Return figures as one line; what is zero and need not be said is left out."""
    parts = []
    if now.started < now.workers:
        parts.append(f"{now.started} of {now.workers} workers started")
    if now.started and not now.held:
        parts.append("nothing to do yet: " + _why_idle(now))
    elif now.held:
        parts.append(_counted(now.held, "shard"))
        parts.append(f"{now.records_per_second:,} records/s")
        if now.lag_seconds is not None:
            parts.append(f"at most {now.lag_seconds:.1f} s behind")
    rare = [
        (now.halted, "shard", " halted"),
        (now.completed, "shard", " completed"),
        (now.retries, "retry", ""),
        (now.dead_letters, "dead letter", ""),
        (now.gaps, "gap", ""),
    ]
    parts.extend(_counted(count, what) + more for count, what, more in rare if count)
    return " · ".join(parts) or "starting"


def serve(port: int, read: Callable[[], Figures]) -> None:
    """Serve the figures to Prometheus on loopback."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError as error:
        raise ConfigurationError(
            "metrics for Prometheus need: pip install 'shardline[metrics]'"
        ) from error
    registry = CollectorRegistry()
    registry.register(_Collector(read))
    start_http_server(port, addr="127.0.0.1", registry=registry)


class _Collector:
    def __init__(self, read: Callable[[], Figures]) -> None:
        self._read = read

    def collect(self) -> Any:
        """Make the families anew at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now = self._read()
        for figure, (name, what) in _GAUGES.items():
            value = getattr(now, figure)
            if value is not None:
                yield GaugeMetricFamily(name, what, value)
        for figure, (name, what) in _COUNTERS.items():
            yield CounterMetricFamily(name, what, getattr(now, figure))


_GAUGES: Final = {
    "workers": ("shardline_workers", "Workers asked for"),
    "started": ("shardline_workers_started", "Workers with a heartbeat"),
    "held": ("shardline_leases_held", "Leases held now"),
    "lag_seconds": ("shardline_lag_seconds", "Longest lag of a shard"),
    "records_per_second": ("shardline_records_per_second", "Records processed a second"),
    "bytes_per_second": ("shardline_bytes_per_second", "Bytes processed a second"),
    "shards": ("shardline_shards", "Shards that are not completed"),
    "halted": ("shardline_shards_halted", "Shards that stand still until they are released"),
    "gaps": ("shardline_gaps", "Shards with a gap on record"),
}
_COUNTERS: Final = {
    "retries": ("shardline_retries", "Deliveries that were tried again"),
    "dead_letters": ("shardline_dead_letters", "Records written to the dead letters"),
    "completed": ("shardline_shards_completed", "Shards processed to their end"),
}


def _why_idle(now: Figures) -> str:
    if not now.shards:
        return "no shard may be read yet"
    if now.halted == now.shards:
        return "every shard is halted"
    return "other workers hold every shard"


def _counted(count: int, what: str) -> str:
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else many}"
