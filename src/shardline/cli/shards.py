"""`shardline shards`: the lineage as a tree."""

import time
from contextlib import closing
from typing import Annotated

import typer

from shardline.cli.options import (
    App,
    AsJson,
    EndpointUrl,
    LeaseEndpointUrl,
    LeaseTable,
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
    show_all: Annotated[bool, typer.Option("--all", help="Also show old closed shards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the shards of a stream as a tree of parents and children.

    With --app and --lease-table also the owner, state and lag of each shard.
    """
    from shardline.cli.leases.tables import open_if_named
    from shardline.cli.output import print_json, wide_console
    from shardline.cli.tree import render
    from shardline.observation.observation import observe
    from shardline.observation.views import shard_views
    from shardline.services.access import Access
    from shardline.services.connection import connect

    access = Access(region=region, endpoint_url=endpoint_url, profile=profile)
    with (
        closing(connect(stream, access)) as service,
        open_if_named(app, lease_table, access, lease_endpoint_url) as table,
    ):
        observation = observe(service, stream, time.time(), table, app)
    views = shard_views(observation)
    if as_json:
        print_json({"stream": stream, "app": app, "shards": views})
    else:
        render(views, observation.at, wide_console(), with_app=app is not None, show_all=show_all)
