"""A snapshot as HTML, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.observation.names import short_worker_name
from shardline.streams.html import table_html

if TYPE_CHECKING:
    from shardline.observation.snapshot import ShardView, Snapshot, WorkerView


def snapshot_html(snapshot: Snapshot) -> str:
    """Return a table of the shards; with an application, their leases and its workers too."""
    headings = ["shard", "parents", "state"]
    rows = [[view.id, ", ".join(view.parents), _state(view)] for view in snapshot.shards]
    if snapshot.app is None:
        return table_html(f"{snapshot.stream}: {len(rows)} shards", headings, rows)
    headings += ["owner", "epoch", "checkpoint", "lag"]
    rows = [[*row, *_lease(view)] for row, view in zip(rows, snapshot.shards, strict=True)]
    caption = f"{snapshot.stream}, leases of {snapshot.app}: {len(rows)} shards"
    workers = [_worker(worker) for worker in snapshot.workers]
    html = table_html(caption, headings, rows)
    html += table_html(f"{len(workers)} workers", ["worker", "holds", "lag", ""], workers)
    if snapshot.gaps:
        gaps = [[gap.shard_id, gap.text] for gap in snapshot.gaps]
        html += table_html(f"{len(gaps)} gaps", ["shard", "gap"], gaps)
    return html


def _state(view: ShardView) -> str:
    waits = f" for {', '.join(view.waits_for)}" if view.waits_for else ""
    return f"{view.state}{waits}" + (f": {view.halted}" if view.halted else "")


def _lease(view: ShardView) -> list[str]:
    return [
        short_worker_name(view.owner) if view.owner else "",
        "" if view.epoch is None else str(view.epoch),
        view.checkpoint or "",
        _seconds(view.lag_seconds),
    ]


def _worker(worker: WorkerView) -> list[str]:
    leaving = "leaving" if worker.leaving else ""
    return [short_worker_name(worker.name), str(worker.held), _seconds(worker.lag_seconds), leaving]


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"
