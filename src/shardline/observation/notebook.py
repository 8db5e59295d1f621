"""The lineage of a stream and the leases of an application, for a notebook."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from shardline.leases.address import open_table
from shardline.observation.observation import observe
from shardline.observation.snapshot import Snapshot
from shardline.observation.views import gap_views, shard_views, worker_views
from shardline.services.access import Access
from shardline.services.connection import connect

if TYPE_CHECKING:
    from shardline.leases.port import LeaseTable


def lineage(
    stream: str,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
) -> Snapshot:
    """Return the shards of a stream, each parent before its children. A notebook shows a table."""
    return _snapshot(stream, Access(region, endpoint_url, profile))


def leases(
    stream: str,
    app: str,
    lease_table: str,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    lease_endpoint_url: str | None = None,
    profile: str | None = None,
) -> Snapshot:
    """Return the same with the leases of an application: owners, checkpoints, lag, workers."""
    with closing(open_table(lease_table, Access(region, lease_endpoint_url, profile))) as table:
        return _snapshot(stream, Access(region, endpoint_url, profile), table, app)


def _snapshot(
    stream: str, access: Access, table: LeaseTable | None = None, app: str | None = None
) -> Snapshot:
    with closing(connect(stream, access)) as service:
        observation = observe(service, stream, time.time(), table, app)
    shards = shard_views(observation)
    return Snapshot(
        at=observation.at,
        stream=stream,
        app=app,
        shards=shards,
        workers=worker_views(observation, shards, {}),
        gaps=gap_views(observation),
    )
