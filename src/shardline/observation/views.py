"""What an observation shows of each shard, each worker and each gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.checkpoints import position_to_json
from shardline.core.lineage import State, trace
from shardline.core.positions import After, AtTime
from shardline.core.shards import HASH_SPACE_END
from shardline.observation.shard_times import closed_at, opened_at
from shardline.observation.snapshot import GapView, ShardView, WorkerView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardline.core.leasing.rows import LeaseRow
    from shardline.core.lineage import Standing
    from shardline.core.positions import Position
    from shardline.observation.observation import Observation


def shard_views(observation: Observation) -> tuple[ShardView, ...]:
    """Return a view of each shard, each parent before its children.

    Drained shards that the service no longer lists are left out.
    """
    rows = {row.shard_id: row for row in observation.rows or ()}
    drained = frozenset(row.shard_id for row in rows.values() if row.completed)
    lineage = trace(observation.shards, drained=drained, known=rows.keys())
    return tuple(
        _shard_view(standing, rows.get(standing.shard_id), observation)
        for standing in lineage.standings.values()
        if standing.shard is not None
        or (standing.shard_id in rows and standing.state is not State.DRAINED)
    )


def worker_views(
    observation: Observation, shards: Iterable[ShardView], silent_seconds: Mapping[str, float]
) -> tuple[WorkerView, ...]:
    """Return the workers that hold a lease or have a heartbeat, by name."""
    beats = {beat.worker: beat for beat in observation.heartbeats}
    by_owner: dict[str, list[ShardView]] = {worker: [] for worker in beats}
    for shard in shards:
        if shard.owner is not None:
            by_owner.setdefault(shard.owner, []).append(shard)
    return tuple(
        WorkerView(
            name=owner,
            held=len(held),
            lag_seconds=max(_not_none(s.lag_seconds for s in held), default=None),
            records_per_second=(
                sum(_not_none(s.records_per_second for s in held))
                or (beats[owner].records_per_second if owner in beats else None)
                or None
            ),
            leaving=owner in beats and beats[owner].leaving,
            silent_seconds=silent_seconds.get(owner, 0),
        )
        for owner, held in sorted(by_owner.items())
    )


def gap_views(observation: Observation) -> tuple[GapView, ...]:
    """Return the gaps that the lease rows record."""
    return tuple(GapView(row.shard_id, row.gap) for row in observation.rows or () if row.gap)


def position_text(position: Position) -> str:
    """Return a position as people write it."""
    match position:
        case AtTime(time):
            return f"at {time.isoformat(timespec='seconds')}"
        case After(sequence, sub_sequence):
            return f"after {sequence}" + ("" if sub_sequence is None else f"/{sub_sequence}")
    return str(position_to_json(position))  # the others are names


def lag_within(lag_seconds: float | None, opened_at: float | None, at: float) -> float | None:
    """Return the lag, limited to the age of the shard.

    A young shard inherits the checkpoint time of its parents, but holds no record that old.
    """
    if lag_seconds is None or opened_at is None:
        return lag_seconds
    return max(0.0, min(lag_seconds, at - opened_at))


def _shard_view(standing: Standing, row: LeaseRow | None, observation: Observation) -> ShardView:
    shard = standing.shard
    closed = shard is None or shard.closed
    hash_range = shard.hash_range if shard else None
    lag = observation.lag_seconds.get(standing.shard_id)
    if lag is None and standing.state is State.READABLE and row is not None:
        lag = _lag_of(row, observation.at)
    opened = opened_at(shard, observation.stream_created_at) if shard else None
    return ShardView(
        id=standing.shard_id,
        parents=shard.parents if shard else (),
        closed=closed,
        state=_state_of(standing, row, observation, closed=closed),
        waits_for=standing.waits_for if observation.rows is not None else (),
        hash_start=hash_range.start / (HASH_SPACE_END + 1) if hash_range else None,
        hash_end=(hash_range.end + 1) / (HASH_SPACE_END + 1) if hash_range else None,
        opened_at=opened,
        closed_at=closed_at(shard) if shard else None,
        owner=row.lease_owner if row else None,
        epoch=row.epoch if row else None,
        checkpoint=position_text(row.checkpoint) if row else None,
        halted=row.halted if row else "",
        lag_seconds=lag_within(lag, opened, observation.at),
        records_per_second=observation.records_per_second.get(standing.shard_id),
    )


def _state_of(
    standing: Standing, row: LeaseRow | None, observation: Observation, *, closed: bool
) -> str:
    if observation.rows is None:
        return "closed" if closed else "open"
    return "halted" if row is not None and row.halted else standing.state.value


def _lag_of(row: LeaseRow, now: float) -> float | None:
    """Return the lag that the owner reported or, of a shard without one, what may be unread."""
    if row.lease_owner is not None and row.lag_ms is not None:
        return row.lag_ms / 1000
    return None if row.as_of is None else max(0.0, now - row.as_of.timestamp())


def _not_none(numbers: Iterable[float | None]) -> list[float]:
    return [number for number in numbers if number is not None]
