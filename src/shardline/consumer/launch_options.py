"""From the options of a launcher to a job: every mistake shows here, before anything is started."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shardline.consumer.dead_letters import open_dead_letters
from shardline.consumer.job import Job, LeasePlace, PipelineLimits, StreamSource
from shardline.consumer.policies import DeadLetter
from shardline.consumer.temporary_folder import folder_until_exit
from shardline.core.leasing.times import LeaseTimes
from shardline.core.positions import LATEST, start_at
from shardline.errors import ConfigurationError
from shardline.services.access import Access
from shardline.services.connection import connect
from shardline.services.snapshot_stream import MARGIN, SnapshotSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.consumer.consumer import ChangeOf, ShardConsumer

SNAPSHOT: Final = "snapshot"
"""The start that means: the items of the table first, then every change since."""

DEFAULT_LEASE_TABLE: Final = "sqlite:///shardline-leases.db"
"""For the workers of one machine that are started in the same folder."""

_EPHEMERAL: Final = "shardline-leases-"
"""How the folders with the lease tables of ephemeral apps begin."""


def job_of(
    consumer: ShardConsumer,
    pickled: Callable[[object], bytes],
    *,
    streams: tuple[str, ...],
    app: str | None = None,
    name: str | None = None,
    lease_table: str | None = None,
    lease_endpoint_url: str | None = None,
    start: str | datetime = "trim_horizon",
    ephemeral: bool = False,
    expect_app: bool = False,
    lease_seconds: float = 10,
    checkpoint_seconds: float = 5,
    batch_records: int = 10_000,
    read_ahead_mb: int = 512,
    stall_seconds: float = 600,
    stop_seconds: float = 30,
    go_on_after_gaps: bool = False,
    wire: str = "json",
    fan_out: str | None = None,
    snapshot_segments: int = 4,
    snapshot_units_per_second: float | None = None,
    change_of: ChangeOf | None = None,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    role_arn: str | None = None,
    external_id: str | None = None,
) -> Job:
    """Return the job, or raise a `ConfigurationError` of one line.

    An `ephemeral` app begins at the latest point, keeps its leases for as long as it runs, and
    remembers nothing. `expect_app` refuses an app that has no leases yet: a mistyped name or table
    would begin anew. `fan_out` names a consumer of enhanced fan-out, which is registered if it is
    missing and costs money: shards are pushed to it, and polled while they are not. `name` is how
    leases and dashboard show the workers of this run.

    With `start="snapshot"` every item of a table is delivered first, as a change of the type
    "snapshot", in `snapshot_segments` side by side and at no more than `snapshot_units_per_second`;
    then every change since.
    """
    if not streams:
        raise ConfigurationError("name a stream: kinesis://NAME or dynamodb://TABLE")
    if not ephemeral and not app:
        raise ConfigurationError("name the app whose workers share the stream: app=…")
    access = Access(region, endpoint_url, profile, role_arn, external_id)
    if isinstance(consumer.failure, DeadLetter):
        open_dead_letters(consumer.failure.to, access)
    if ephemeral:
        app = app or f"ephemeral-{uuid.uuid4().hex[:12]}"
        lease_table = lease_table or f"sqlite:///{folder_until_exit(_EPHEMERAL)}/leases.db"
    sources = tuple(_source(address, access, wire, fan_out) for address in streams)
    if start == SNAPSHOT:
        settings = SnapshotSettings(snapshot_segments, snapshot_units_per_second)
        sources = tuple(replace(source, snapshot=settings) for source in sources)
        start = min(_snapshot_start(source) for source in sources)
    return Job(
        streams=sources,
        app=str(app),
        leases=LeasePlace(
            _absolute(lease_table or DEFAULT_LEASE_TABLE),
            Access(region, lease_endpoint_url, profile, role_arn, external_id),
        ),
        consumer=pickled(consumer),
        change_of=None if change_of is None else pickled(change_of),
        start=LATEST if ephemeral else start_at(start),
        times=LeaseTimes(lease_seconds=lease_seconds, checkpoint_seconds=checkpoint_seconds),
        limits=PipelineLimits(batch_records=batch_records),
        memory_bytes=read_ahead_mb * 1024 * 1024,
        stall_seconds=stall_seconds,
        stop_seconds=stop_seconds,
        go_on_after_gaps=go_on_after_gaps,
        expect_app=expect_app,
        run_id=f"{name}-{uuid.uuid4().hex[:6]}" if name else uuid.uuid4().hex[:12],
    )


def _source(address: str, access: Access, wire: str, fan_out: str | None) -> StreamSource:
    source = StreamSource(address, access, wire, fan_out)
    _ = source.name  # a malformed address shows here
    if fan_out is not None:
        connect(address, access, wire=wire, fan_out=fan_out).close()  # so does a wrong name
    return source


def _snapshot_start(source: StreamSource) -> datetime:
    """Return a time of the service before which nothing needs to be read of a table's stream."""
    service = connect(source.address, source.access, snapshot=source.snapshot)
    try:
        now = service.describe().service_time
    finally:
        service.close()
    if now is None:
        raise ConfigurationError(f"{source.address} does not report its time: pass another start")
    return now - MARGIN


def _absolute(lease_table: str) -> str:
    """Make the path of a SQLite file whole: tasks work in folders of their own."""
    prefix = "sqlite:///"
    if not lease_table.startswith(prefix):
        return lease_table
    return prefix + str(Path(lease_table.removeprefix(prefix)).absolute())
