"""`shardline leases export` and `import`: places of an app from one lease table into another."""

import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardline.cli.leases.command import (
    AppName,
    DryRun,
    TableAddress,
    Yes,
    parse_lasting_position,
)
from shardline.cli.options import (
    AsJson,
    EndpointUrl,
    LeaseEndpointUrl,
    Profile,
    Region,
    StreamAddress,
)
from shardline.errors import ConfigurationError

if TYPE_CHECKING:
    from shardline.core.leasing.rows import Header, LeaseRow
    from shardline.services.access import Access
    from shardline.services.port import StreamService


def export_leases(
    stream: StreamAddress,
    app: AppName,
    lease_table: TableAddress,
    force: Annotated[
        bool, typer.Option("--force", help="Even if leases or heartbeats of workers exist.")
    ] = False,
    region: Region = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
) -> None:
    """Print the checkpoints of an application as JSON, for `leases import`.

    Stop its workers first: what they process after the export is delivered again.
    """
    from shardline.cli.leases.changes import require_no_workers, select_rows
    from shardline.cli.leases.tables import open_lease_table
    from shardline.core.leasing.lease_document import to_document
    from shardline.services.access import Access

    access = Access(region=region, profile=profile)
    with open_lease_table(app, lease_table, access, lease_endpoint_url) as table:
        rows = list(select_rows(table, app, stream, None, everything=True))
        if not force:
            require_no_workers(table, rows)
        header = table.read_header(app, rows[0].stream_name)
        if header is None:
            raise ConfigurationError(
                f"{table.address} has no header of {app!r} on {stream}: start a worker once"
            )
        parked = table.read_parked_keys(app, header.stream_name, [row.shard_id for row in rows])
    if parked:
        raise ConfigurationError(
            f"{len(parked)} keys are parked, and a document holds none: "
            "`shardline letters redrive` them first"
        )
    typer.echo(to_document(header, rows))


def import_leases(
    stream: StreamAddress,
    app: AppName,
    lease_table: TableAddress,
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A document of `leases export`; - is stdin."),
    ] = None,
    kcl_table: Annotated[
        str | None,
        typer.Option(
            "--from-kcl", metavar="TABLE", help="A lease table of the Kinesis Client Library."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="For shards in which the KCL has no checkpoint yet: 2h, an ISO time."),
    ] = None,
    watch_seconds: Annotated[
        float, typer.Option(min=0, help="How long to watch whether the KCL still runs.")
    ] = 5.0,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Begin an application at the checkpoints of another one, or of the KCL.

    The application must be new. Nothing is read twice, and nothing is skipped: a checkpoint whose
    record has expired by the time a worker starts there is a gap, as always.
    """
    from shardline.cli.leases.changes import write_leases
    from shardline.leases.address import open_table
    from shardline.services.access import Access
    from shardline.services.connection import connect

    if (file is None) == (kcl_table is None):
        raise ConfigurationError("name one of --from FILE and --from-kcl TABLE")
    access = Access(region=region, endpoint_url=endpoint_url, profile=profile)
    table_access = replace(access, endpoint_url=lease_endpoint_url)
    with closing(connect(stream, access)) as service:
        if kcl_table is not None:
            header, rows = _of_kcl(
                kcl_table, stream, app, service, table_access, start, watch_seconds
            )
        else:
            header, rows = _of_file(file or Path("-"), stream, app, service)
    with closing(open_table(lease_table, table_access)) as table:
        write_leases(table, header, rows, dry_run=dry_run, yes=yes, as_json=as_json)


def _of_file(
    file: Path, stream: str, app: str, service: "StreamService"
) -> "tuple[Header, tuple[LeaseRow, ...]]":
    from shardline.core.leasing.lease_document import for_app, from_document
    from shardline.services.addresses import parse_address

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    header, rows = for_app(*from_document(text), app)
    if header.stream_name != parse_address(stream).stream_name:
        raise ConfigurationError(f"{file} holds leases of {header.stream_name}, not of {stream}")
    if header.stream_created_at != service.describe().created_at:
        raise ConfigurationError(
            f"{stream} was made again since {file} was exported: its shards are other ones, and "
            "the checkpoints are worth nothing. Start the app with --start trim_horizon"
        )
    return header, rows


def _of_kcl(
    table_name: str,
    stream: str,
    app: str,
    service: "StreamService",
    access: "Access",
    start: str | None,
    watch_seconds: float,
) -> "tuple[Header, tuple[LeaseRow, ...]]":
    from shardline.core.leasing.rows import Header
    from shardline.core.positions import TRIM_HORIZON
    from shardline.leases.kcl_table import read_kcl_leases, rows_of, without_place
    from shardline.services.addresses import parse_address

    address = parse_address(stream)
    leases = read_kcl_leases(table_name, address.name, access)
    if not leases:
        raise ConfigurationError(f"the DynamoDB table {table_name!r} has no leases of {stream}")
    time.sleep(watch_seconds)  # a running KCL renews every few seconds
    if read_kcl_leases(table_name, address.name, access) != leases:
        raise ConfigurationError(
            f"the leases in {table_name!r} are being renewed: stop every worker of the KCL first"
        )
    unstarted = without_place(leases)
    if unstarted and start is None:
        raise ConfigurationError(
            f"the KCL has processed nothing in {unstarted[0]} ({len(unstarted)} shards in all): "
            "pass where to begin there: --start TIME or --start trim_horizon"
        )
    described = service.describe()
    header = Header(
        app,
        address.stream_name,
        described.created_at,
        parse_lasting_position(start) if start else TRIM_HORIZON,
        settled=True,
    )
    return header, rows_of(leases, service.list_shards(), header, described)
