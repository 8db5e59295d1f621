"""Leases as a table, and their workers in a line each."""

from typing import TYPE_CHECKING

from shardline.cli.output import duration, printable
from shardline.observation.names import short_worker_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from shardline.observation.snapshot import ShardView, WorkerView


def render(
    views: "Sequence[ShardView]", workers: "Sequence[WorkerView]", console: "Console"
) -> None:
    """Print the leases, then the workers."""
    from rich.table import Table

    leases = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("SHARD", "STATE", "OWNER", "EPOCH", "LAG", "CHECKPOINT"):
        right = header in {"EPOCH", "LAG"}
        leases.add_column(header, justify="right" if right else "left", no_wrap=True)
    for view in views:
        leases.add_row(
            printable(view.id),
            view.state,
            printable(short_worker_name(view.owner)) if view.owner else "–",
            str(view.epoch),
            duration(view.lag_seconds),
            printable(view.checkpoint or "–"),
        )
    console.print(leases)
    for view in views:
        if view.halted:
            console.print(f"{printable(view.id)} is halted: {printable(view.halted)}")
    for worker in workers:
        leaving = ", leaving" if worker.leaving else ""
        known = worker.lag_seconds is not None
        lag = f", lag {duration(worker.lag_seconds)}" if known else ""
        leases_held = "1 lease" if worker.held == 1 else f"{worker.held} leases"
        console.print(f"{printable(worker.name)}: {leases_held}{lag}{leaving}")
