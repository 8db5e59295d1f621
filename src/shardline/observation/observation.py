"""One look at a stream and at an application's leases, and what it shows of each shard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shardline.core.leasing.rows import worker_name
from shardline.core.lineage import State, trace
from shardline.core.positions import After, AtTime, Latest, ShardEnd, TrimHorizon
from shardline.core.shards import HASH_SPACE_END
from shardline.observation.shard_times import closed_at, opened_at
from shardline.observation.snapshot import GapView, ShardView, WorkerView
from shardline.services.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.core.leasing.rows import Heartbeat, LeaseRow
    from shardline.core.lineage import Standing
    from shardline.core.positions import Position
    from shardline.core.shards import Shard
    from shardline.leases.port import LeaseTable
    from shardline.services.port import StreamDescription, StreamService

_ROWS_PER_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was seen at one moment. `rows` is None where no application is looked at."""

    at: float
    shards: tuple[Shard, ...]
    stream_created_at: float | None = None
    rows: tuple[LeaseRow, ...] | None = None
    heartbeats: tuple[Heartbeat, ...] = ()
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    """Of shards where it is measured; of the others the lease row tells it."""
    records_per_second: Mapping[str, float] = field(default_factory=dict)


def look(
    service: StreamService,
    address: str,
    now: float,
    table: LeaseTable | None = None,
    app: str | None = None,
    description: StreamDescription | None = None,
) -> Sighting:
    """Look once: describe (unless that was done) and list the stream, and read the app's rows."""
    description = description or service.describe()
    rows: tuple[LeaseRow, ...] | None = None
    heartbeats: tuple[Heartbeat, ...] = ()
    if table is not None and app is not None:
        stream_name = parse_address(address).stream_name
        rows = read_all_rows(table, app, stream_name)
        heartbeats = table.read_heartbeats(app, stream_name)
    return Sighting(
        now, service.list_shards(), description.created_at.timestamp(), rows, heartbeats
    )


def read_all_rows(table: LeaseTable, app: str, stream: str) -> tuple[LeaseRow, ...]:
    """Read every lease row of an application on a stream."""
    rows: list[LeaseRow] = []
    after: str | None = None
    while True:
        page = table.scan_rows(app, stream, after, _ROWS_PER_PAGE)
        rows.extend(page.rows)
        if page.next_after is None:
            return tuple(rows)
        after = page.next_after


def views_of(sighting: Sighting) -> tuple[ShardView, ...]:
    """Return what a sighting shows of each shard, each parent before its children.

    Drained shards that the service no longer lists are left out.
    """
    rows = {row.shard_id: row for row in sighting.rows or ()}
    drained = frozenset(row.shard_id for row in rows.values() if row.completed)
    lineage = trace(sighting.shards, drained=drained, known=rows.keys())
    return tuple(
        _view_of(standing, rows.get(standing.shard_id), sighting)
        for standing in lineage.standings.values()
        if standing.shard is not None
        or (standing.shard_id in rows and standing.state is not State.DRAINED)
    )


def workers_of(
    sighting: Sighting, shards: Iterable[ShardView], silent_seconds: Mapping[str, float]
) -> tuple[WorkerView, ...]:
    """Return the workers that hold a lease or have a heartbeat, by name."""
    by_owner: dict[str, list[ShardView]] = {beat.worker: [] for beat in sighting.heartbeats}
    for shard in shards:
        if shard.owner is not None:
            by_owner.setdefault(shard.owner, []).append(shard)
    leaving = {beat.worker for beat in sighting.heartbeats if beat.leaving}
    return tuple(
        WorkerView(
            name=owner,
            held=len(held),
            lag_seconds=max(
                (s.lag_seconds for s in held if s.lag_seconds is not None), default=None
            ),
            records_per_second=sum(_known(s.records_per_second for s in held)) or None,
            leaving=owner in leaving,
            silent_seconds=silent_seconds.get(owner, 0),
        )
        for owner, held in sorted(by_owner.items())
    )


def gaps_of(sighting: Sighting) -> tuple[GapView, ...]:
    """Return the gaps that the lease rows record."""
    return tuple(GapView(row.shard_id, row.gap) for row in sighting.rows or () if row.gap)


def short_name(owner: str) -> str:
    """Return a worker's name without the UUID of its incarnation."""
    return worker_name(owner) or owner


def position_text(position: Position) -> str:
    """Write a position for people."""
    match position:
        case TrimHorizon():
            return "trim_horizon"
        case Latest():
            return "latest"
        case ShardEnd():
            return "shard_end"
        case AtTime(time):
            return f"at {time.isoformat(timespec='seconds')}"
        case After(sequence, None):
            return f"after {sequence}"
        case After(sequence, sub_sequence):
            return f"after {sequence}/{sub_sequence}"


def lag_within(lag_seconds: float | None, opened_at: float | None, at: float) -> float | None:
    """Return a lag that is no longer than the shard has been there.

    What is told of a young shard is how far its parents were, and nothing in it is that old.
    """
    if lag_seconds is None or opened_at is None:
        return lag_seconds
    return max(0.0, min(lag_seconds, at - opened_at))


def _view_of(standing: Standing, row: LeaseRow | None, sighting: Sighting) -> ShardView:
    shard = standing.shard
    closed = shard is None or shard.closed
    hash_range = shard.hash_range if shard else None
    lag = sighting.lag_seconds.get(standing.shard_id)
    if lag is None and standing.state is State.READABLE and row is not None and row.as_of:
        lag = max(0.0, sighting.at - row.as_of.timestamp())
    opened = opened_at(shard, sighting.stream_created_at) if shard else None
    return ShardView(
        id=standing.shard_id,
        parents=shard.parents if shard else (),
        closed=closed,
        state=(
            standing.state.value if sighting.rows is not None else ("closed" if closed else "open")
        ),
        waits_for=standing.waits_for if sighting.rows is not None else (),
        hash_start=hash_range.start / (HASH_SPACE_END + 1) if hash_range else None,
        hash_end=(hash_range.end + 1) / (HASH_SPACE_END + 1) if hash_range else None,
        opened_at=opened,
        closed_at=closed_at(shard) if shard else None,
        owner=row.lease_owner if row else None,
        epoch=row.epoch if row else None,
        checkpoint=position_text(row.checkpoint) if row else None,
        lag_seconds=lag_within(lag, opened, sighting.at),
        records_per_second=sighting.records_per_second.get(standing.shard_id),
    )


def _known(numbers: Iterable[float | None]) -> list[float]:
    return [number for number in numbers if number is not None]
