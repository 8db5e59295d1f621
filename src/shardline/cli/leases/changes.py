"""Changes to lease rows by hand: which rows, the confirmation, and what is refused."""

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shardline.core.leasing.rows import Header, LeaseRow
    from shardline.core.positions import Position
    from shardline.leases.port import LeaseTable
    from shardline.services.access import Access


def listed_shard_ids(stream: str, access: "Access") -> frozenset[str]:
    """Return the ids of the shards that the stream lists."""
    from shardline.services.connection import connect

    with closing(connect(stream, access)) as service:
        return frozenset(shard.id for shard in service.list_shards())


def select_rows(
    table: "LeaseTable", app: str, stream: str, shards: list[str] | None, everything: bool
) -> "Iterator[LeaseRow]":
    """Yield the rows of the named shards, or all rows if `everything`."""
    from shardline.observation.observation import read_all_rows
    from shardline.services.addresses import parse_address

    if bool(shards) == everything:
        raise ConfigurationError("name the shards, or pass --all")
    rows = {
        row.shard_id: row for row in read_all_rows(table, app, parse_address(stream).stream_name)
    }
    if not rows:
        raise ConfigurationError(f"there are no leases of {app!r} on {stream}: check --app")
    for shard_id in shards or rows:
        if shard_id not in rows:
            raise ConfigurationError(
                f"{app!r} has no lease for {shard_id}: `shardline leases {stream} …` lists them"
            )
        yield rows[shard_id]


def apply_changes(
    table: "LeaseTable",
    rows: "list[LeaseRow]",
    make: "Callable[[LeaseRow], LeaseRow]",
    lines: list[str],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    left_alone: "Sequence[str]" = (),
) -> None:
    """Print the changes, ask for confirmation, write them, and make the workers notice.

    `left_alone` are selected shards that are finished and that the stream no longer lists.
    """
    from shardline.cli.output import print_json

    if not as_json:
        for line in lines:
            typer.echo(("would " if dry_run else "") + line)
        for shard_id in left_alone:
            typer.echo(f"{shard_id} stays finished: the stream no longer lists it")
        if not lines:
            typer.echo("nothing to do")
    if rows and not dry_run:
        if not yes:
            typer.confirm(f"Do this to {len(rows)} leases?", abort=True, err=True)
        for row in rows:
            table.swap_row(make(row), row)
        header = table.read_header(rows[0].app_name, rows[0].stream_name)
        if header is not None:
            table.bump(header)  # workers read their rows again at once
    if as_json:
        print_json({"done": not dry_run, "changes": lines, "left_alone": list(left_alone)})


def require_no_workers(table: "LeaseTable", rows: "list[LeaseRow]") -> None:
    """Raise if workers may be running: they would not read completed shards again."""
    owners = {row.lease_owner for row in rows if row.lease_owner}
    for row in rows[:1]:
        owners |= {beat.worker for beat in table.read_heartbeats(row.app_name, row.stream_name)}
    if owners:
        raise ConfigurationError(
            f"{min(owners)} ({len(owners)} in all) may still be running: stop the workers first, "
            "or pass --force if they are dead"
        )


def with_checkpoint(row: "LeaseRow", position: "Position") -> "LeaseRow":
    """Return a row without an owner, with its checkpoint at a position."""
    return replace(
        row,
        checkpoint=position,
        completed=False,
        lease_owner=None,
        given_to=None,
        as_of=None,
        gap="",
        halted="",
        starts=0,
        lag_ms=None,
        lease_count=row.lease_count + 1,
    )


def write_leases(
    table: "LeaseTable",
    header: "Header",
    rows: "Sequence[LeaseRow]",
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Print the rows of a new app, ask for confirmation, and write them, the header last.

    Rows that are there as they should be are left alone, so that an import that was interrupted can
    be repeated.
    """
    from shardline.cli.output import print_json
    from shardline.observation.observation import read_all_rows
    from shardline.observation.views import position_text

    if dry_run:
        present = {}
    else:
        table.prepare()
        present = {
            row.shard_id: row for row in read_all_rows(table, header.app_name, header.stream_name)
        }
        if table.read_header(header.app_name, header.stream_name) or any(
            present.get(row.shard_id, row) != row for row in rows
        ):
            raise ConfigurationError(
                f"{header.app_name!r} has leases in {table.address} already: "
                "import under another --app, or move it with `shardline leases reset`"
            )
    lines = [f"start {row.shard_id} at {position_text(row.checkpoint)}" for row in rows]
    if not as_json:
        for line in lines:
            typer.echo(("would " if dry_run else "") + line)
    if not dry_run:
        if not yes:
            typer.confirm(f"Write {len(rows)} leases of {header.app_name!r}?", abort=True, err=True)
        for row in rows:
            if row.shard_id not in present:
                table.swap_row(row, None)
        table.create_header(header)
    if as_json:
        print_json({"done": not dry_run, "changes": lines, "left_alone": sorted(present)})
