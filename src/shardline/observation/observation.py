"""The state of a stream and of an application's leases at one moment, as read from both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shardline.services.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.core.leasing.rows import Heartbeat, LeaseRow
    from shardline.core.shards import Shard
    from shardline.leases.port import LeaseTable
    from shardline.services.port import StreamDescription, StreamService

_ROWS_PER_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Observation:
    """Shards, lease rows and heartbeats at one moment. `rows` is None without an application."""

    at: float
    shards: tuple[Shard, ...]
    stream_created_at: float | None = None
    rows: tuple[LeaseRow, ...] | None = None
    heartbeats: tuple[Heartbeat, ...] = ()
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    """By shard, where it was measured; for the others it is derived from the lease row."""
    records_per_second: Mapping[str, float] = field(default_factory=dict)
    """By shard, where it was measured."""


def observe(
    service: StreamService,
    address: str,
    now: float,
    table: LeaseTable | None = None,
    app: str | None = None,
    description: StreamDescription | None = None,
) -> Observation:
    """Return the current state: lists the stream, and reads the app's rows and heartbeats.

    The stream is described only if no description is passed.
    """
    description = description or service.describe()
    rows: tuple[LeaseRow, ...] | None = None
    heartbeats: tuple[Heartbeat, ...] = ()
    if table is not None and app is not None:
        stream_name = parse_address(address).stream_name
        rows = read_all_rows(table, app, stream_name)
        heartbeats = table.read_heartbeats(app, stream_name)
    return Observation(
        now, service.list_shards(), description.created_at.timestamp(), rows, heartbeats
    )


def read_all_rows(table: LeaseTable, app: str, stream: str) -> tuple[LeaseRow, ...]:
    """Return every lease row of an application on a stream."""
    rows: list[LeaseRow] = []
    after: str | None = None
    while True:
        page = table.scan_rows(app, stream, after, _ROWS_PER_PAGE)
        rows.extend(page.rows)
        if page.next_after is None:
            return tuple(rows)
        after = page.next_after
