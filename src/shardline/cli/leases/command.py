"""`shardline leases`: owners and checkpoints; release and reset, after a confirmation."""

import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from shardline.cli.options import (
    AsJson,
    EndpointUrl,
    LeaseEndpointUrl,
    Profile,
    Region,
    StreamAddress,
)
from shardline.errors import ConfigurationError, InvalidPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from shardline.core.positions import Position
    from shardline.observation.snapshot import ShardView, WorkerView

AppName = Annotated[str, typer.Option("--app", help="The application whose leases these are.")]
TableAddress = Annotated[
    str,
    typer.Option(
        "--lease-table", help="dynamodb://TABLE, sqlite:///FILE or postgresql://HOST/DATABASE."
    ),
]
ShardIds = Annotated[list[str] | None, typer.Argument(metavar="SHARD...", help="Which shards.")]
Everything = Annotated[bool, typer.Option("--all", help="All shards of the application.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class ShowByDefault(TyperGroup):
    """`shardline leases STREAM …` means `shardline leases show STREAM …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `show` if no other command is named."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["show", *args]
        return super().parse_args(ctx, args)


def show(
    stream: StreamAddress,
    app: AppName,
    lease_table: TableAddress,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Show the owner, epoch, checkpoint and lag of each shard."""
    from shardline.cli.leases.tables import open_lease_table
    from shardline.cli.output import print_json, wide_console
    from shardline.observation.observation import observe
    from shardline.observation.views import shard_views, worker_views
    from shardline.services.access import Access
    from shardline.services.connection import connect

    access = Access(region=region, endpoint_url=endpoint_url, profile=profile)
    with (
        closing(connect(stream, access)) as service,
        open_lease_table(app, lease_table, access, lease_endpoint_url) as table,
    ):
        observation = observe(service, stream, time.time(), table, app)
    views = [view for view in shard_views(observation) if view.epoch is not None]
    workers = worker_views(observation, views, {})
    if as_json:
        print_json({"stream": stream, "app": app, "workers": workers, "leases": views})
        return
    if not views:
        raise ConfigurationError(
            f"{lease_table} holds no leases of {app!r} on {stream}: check --app, or has it run yet?"
        )
    _render(views, workers, wide_console())


def release(
    stream: StreamAddress,
    app: AppName,
    lease_table: TableAddress,
    shards: ShardIds = None,
    everything: Everything = False,
    region: Region = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take leases away from their owners, and let halted shards be taken again.

    Nothing is lost: the next owner starts at the checkpoint. What the old one had delivered after
    it is delivered again.
    """
    from shardline.cli.leases.changes import apply_changes, select_rows
    from shardline.cli.leases.tables import open_lease_table
    from shardline.core.leasing.rows import released_by_hand
    from shardline.services.access import Access

    access = Access(region=region, profile=profile)
    with open_lease_table(app, lease_table, access, lease_endpoint_url) as table:
        selected = select_rows(table, app, stream, shards, everything)
        rows = [row for row in selected if row.lease_owner or row.halted]
        lines = [
            f"release {row.shard_id} "
            + (f"from {row.lease_owner}" if row.lease_owner else f"(halted: {row.halted})")
            for row in rows
        ]
        apply_changes(
            table, rows, released_by_hand, lines, dry_run=dry_run, yes=yes, as_json=as_json
        )


def reset(
    stream: StreamAddress,
    app: AppName,
    lease_table: TableAddress,
    to: Annotated[str, typer.Option(help="trim_horizon, 2h (ago), or an ISO time.")],
    shards: ShardIds = None,
    everything: Everything = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if leases or heartbeats of workers exist.")
    ] = False,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move checkpoints, so that the application reads again from (or skips to) a position.

    Stop its workers first. Moving a checkpoint forward skips records without delivering them.
    Finished shards that the stream no longer lists stay finished: there is nothing left in them.
    """
    from shardline.cli.leases.changes import (
        apply_changes,
        listed_shard_ids,
        require_no_workers,
        select_rows,
        with_checkpoint,
    )
    from shardline.cli.leases.tables import open_lease_table
    from shardline.observation.views import position_text
    from shardline.services.access import Access

    position = parse_lasting_position(to)
    access = Access(region=region, endpoint_url=endpoint_url, profile=profile)
    with open_lease_table(app, lease_table, access, lease_endpoint_url) as table:
        selected = list(select_rows(table, app, stream, shards, everything))
        if not force:
            require_no_workers(table, selected)
        still_listed = listed_shard_ids(stream, access)
        rows = [row for row in selected if not row.completed or row.shard_id in still_listed]
        place = position_text(position)
        lines = [
            f"reset {row.shard_id} from {position_text(row.checkpoint)} to {place}" for row in rows
        ]
        gone = [row.shard_id for row in selected if row not in rows]
        apply_changes(
            table,
            rows,
            lambda row: with_checkpoint(row, position),
            lines,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            left_alone=gone,
        )


def parse_lasting_position(text: str) -> "Position":
    """Return the position in a text; `latest` is refused, since it does not last."""
    from shardline.cli.since import parse_since
    from shardline.core.positions import TRIM_HORIZON, AtTime

    since = parse_since(text, datetime.now(UTC))
    if isinstance(since, datetime):
        return AtTime(since)
    if since == "latest":
        raise InvalidPosition(
            "latest is a different position at every start: pass a time, such as 1s"
        )
    return TRIM_HORIZON


def _render(
    views: "Sequence[ShardView]", workers: "Sequence[WorkerView]", console: "Console"
) -> None:
    """Print the leases, then the workers."""
    from rich.table import Table

    from shardline.cli.output import duration, printable
    from shardline.observation.names import short_worker_name

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
