"""`shardline shards`: the lineage as a tree, with what waits for what."""

import time
from typing import Annotated

import typer

from shardline.cli.options import (
    App,
    AsJson,
    EndpointUrl,
    LeaseEndpointUrl,
    LeaseTable,
    Place,
    Profile,
    Region,
    StreamAddress,
)


def shards(
    stream: StreamAddress,
    app: App = None,
    lease_table: LeaseTable = None,
    region: Region = None,
    endpoint_url: EndpointUrl = None,
    lease_endpoint_url: LeaseEndpointUrl = None,
    profile: Profile = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Do not fold old closed shards away.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the shards of a stream as a tree: which came from which, and what waits for what.

    With --app and --lease-table also: who works on each shard, how far it is, and why it waits.
    """
    from shardline.cli.leases.tables import lease_table_for
    from shardline.cli.output import print_json, wide_console
    from shardline.cli.tree import render
    from shardline.observation.observation import look, views_of
    from shardline.services.access import Access
    from shardline.services.connection import connect

    lease_place = Place(region=region, endpoint_url=lease_endpoint_url, profile=profile)
    service = connect(stream, Access(region=region, endpoint_url=endpoint_url, profile=profile))
    try:
        with lease_table_for(app, lease_table, lease_place) as table:
            sighting = look(service, stream, time.time(), table, app)
    finally:
        service.close()
    views = views_of(sighting)
    if as_json:
        print_json({"stream": stream, "app": app, "shards": views})
    else:
        render(views, sighting.at, wide_console(), with_app=app is not None, show_all=show_all)
