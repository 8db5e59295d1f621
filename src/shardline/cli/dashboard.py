"""`shardline dashboard`: a live page of a stream, on this machine."""

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from shardline.cli.options import (
    App,
    EndpointUrl,
    LeaseEndpointUrl,
    LeaseTable,
    Profile,
    Region,
)

if TYPE_CHECKING:
    from shardline.observation.watch import LiveWatch

_PATIENCE_SECONDS = 5.0
"""How long a call may take before the page shows the failure."""


def dashboard(
    stream: Annotated[
        str, typer.Option(metavar="STREAM", help="kinesis://NAME, dynamodb://TABLE, or an ARN.")
    ],
    app: App = None,
    lease_table: LeaseTable = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 means any free port.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SHARDLINE_DASHBOARD_TOKEN",
            help="Whoever knows it may release leases and see the payloads of dead letters.",
        ),
    ] = None,
    every: Annotated[
        float, typer.Option(min=0.2, metavar="SECONDS", help="How often the stream is observed.")
    ] = 2.0,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Also show dead letters: file:///FOLDER, kinesis://STREAM or dynamodb://TABLE.",
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Measure records per second, by reading each open shard every time."
        ),
    ] = False,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one snapshot as JSON and exit.")
    ] = False,
) -> None:
    """Serve a page that shows a stream live: lineage over time, owners, lag and events.

    It listens on 127.0.0.1 only. From another machine: ssh -L 8765:127.0.0.1:8765 HOST.
    """
    from shardline.cli.leases.tables import open_if_named
    from shardline.cli.output import print_json
    from shardline.errors import ConfigurationError
    from shardline.observation.dead_letter_reader import open_letters
    from shardline.observation.meter import Meter
    from shardline.observation.watch import LiveWatch
    from shardline.services.access import Access
    from shardline.services.calls import Patience
    from shardline.services.connection import connect

    if token is not None and len(token) < 8:
        raise ConfigurationError("--token is too short: use 8 characters or more")
    access = Access(region=region, endpoint_url=endpoint_url, profile=profile)
    letters = open_letters(dead_letters, access) if dead_letters else None
    service = connect(stream, access, patience=Patience(total_seconds=_PATIENCE_SECONDS))
    meter = Meter(service) if measure else None
    try:
        with open_if_named(app, lease_table, access, lease_endpoint_url) as table:
            watch = LiveWatch(stream, service, table, app, meter, letters)
            if as_json:
                print_json(watch.snapshot().to_json())
                return
            _serve(watch, port, token, every, with_leases=table is not None)
    finally:
        for opened in (meter, letters, service):
            if opened is not None:
                opened.close()


def _serve(
    watch: "LiveWatch", port: int, token: str | None, every: float, *, with_leases: bool
) -> None:
    from shardline.dashboard.server import PageServer

    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    actions = {"release": watch.release} if with_leases else {}
    with PageServer(watch, port=port, token=token, actions=actions, interval_seconds=every) as page:
        mode = "actions and payloads need the token" if token else "read-only"
        typer.echo(f"shardline dashboard: {page.url} ({mode}). Ctrl-C stops it.")
        stopped.wait()
