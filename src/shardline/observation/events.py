"""The events between two snapshots: splits, merges, hand-overs, workers, gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardline.observation.names import shard_list, short_shard_id, short_worker_name
from shardline.observation.snapshot import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shardline.observation.snapshot import ShardView, Snapshot

SILENT_SECONDS: Final = 10.0
"""A worker whose heartbeat has not changed for this long is reported."""


def events_between(before: Snapshot, after: Snapshot) -> tuple[Event, ...]:
    """Return the events between two snapshots of one stream."""
    return (
        *_reshards(before, after),
        *_leases(before, after),
        *_workers(before, after),
        *_gaps(before, after),
        *_halts(before, after),
    )


def _reshards(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    known = {shard.id: shard for shard in before.shards}
    born: dict[tuple[str, ...], list[str]] = {}
    for shard in after.shards:
        if shard.id not in known:
            born.setdefault(shard.parents, []).append(shard.id)
    for parents, children in born.items():
        kind = _reshard_kind(parents, children)
        if parents:
            text = f"{_joined(parents)} → {_joined(children)}"
        else:
            text = f"{shard_list(children)} opened"
        yield Event(after.at, kind, text, (*parents, *children))
    resharded = {parent for parents in born for parent in parents}
    for shard in after.shards:
        earlier = known.get(shard.id)
        if earlier and shard.closed and not earlier.closed and shard.id not in resharded:
            yield Event(
                after.at, EventKind.CLOSED, f"{short_shard_id(shard.id)} closed", (shard.id,)
            )


def _joined(shard_ids: Iterable[str]) -> str:
    return " + ".join(map(short_shard_id, shard_ids))


def _reshard_kind(parents: tuple[str, ...], children: list[str]) -> EventKind:
    if not parents:
        return EventKind.NOTE
    if len(parents) > 1:
        return EventKind.MERGED
    return EventKind.SPLIT if len(children) > 1 else EventKind.CONTINUED


def _leases(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    known = {shard.id: shard for shard in before.shards}
    by_change: dict[tuple[EventKind, str, str], list[str]] = {}
    for shard in after.shards:
        change = _lease_change(known.get(shard.id), shard)
        if change is not None:
            by_change.setdefault(change, []).append(shard.id)
    for (kind, old, new), ids in by_change.items():
        match kind:
            case EventKind.TAKEN:
                text = f"{new} took {shard_list(ids)}"
            case EventKind.HANDED_OVER:
                text = f"{shard_list(ids)}: {old} → {new}"
            case EventKind.DRAINED:
                text = f"{shard_list(ids)} read to the end" + (f" by {old}" if old else "")
            case _:
                text = f"{old} released {shard_list(ids)}"
        yield Event(after.at, kind, text, tuple(ids))


def _lease_change(earlier: ShardView | None, shard: ShardView) -> tuple[EventKind, str, str] | None:
    old = short_worker_name(earlier.owner) if earlier and earlier.owner else ""
    new = short_worker_name(shard.owner) if shard.owner else ""
    if shard.state == "drained" and earlier is not None and earlier.state != "drained":
        return EventKind.DRAINED, old, ""
    if earlier is None or earlier.owner == shard.owner:
        return (EventKind.TAKEN, "", new) if earlier is None and new else None
    if not new:
        return EventKind.RELEASED, old, ""
    return (EventKind.HANDED_OVER, old, new) if old else (EventKind.TAKEN, "", new)


def _workers(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    known = {worker.name: worker for worker in before.workers}
    for worker in after.workers:
        earlier = known.pop(worker.name, None)
        name = short_worker_name(worker.name)
        if earlier is None:
            yield Event(after.at, EventKind.JOINED, f"{name} joined")
        elif earlier.silent_seconds < SILENT_SECONDS <= worker.silent_seconds:
            text = f"{name} has been silent for {worker.silent_seconds:.0f} s"
            yield Event(after.at, EventKind.SILENT, text)
    for name in known:
        yield Event(after.at, EventKind.LEFT, f"{short_worker_name(name)} left")


def _gaps(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    for gap in after.gaps:
        if gap not in before.gaps:
            text = f"{short_shard_id(gap.shard_id)}: {gap.text}"
            yield Event(after.at, EventKind.GAP, text, (gap.shard_id,))


def _halts(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    known = {shard.id for shard in before.shards if shard.halted}
    for shard in after.shards:
        if shard.halted and shard.id not in known:
            text = f"{short_shard_id(shard.id)}: {shard.halted}"
            yield Event(after.at, EventKind.HALTED, text, (shard.id,))
