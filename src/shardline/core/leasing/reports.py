"""What a worker's report about one shard changes in its holding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.checkpoints import further
from shardline.core.leasing import events as e
from shardline.core.leasing.holdings import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.core.leasing.holdings import Holding, Holdings
    from shardline.core.leasing.listed_shards import ListedShards
    from shardline.core.leasing.rows import LeaseRow


def apply_report(event: e.Report, holding: Holding, row: LeaseRow, now: float) -> str:
    """Change the holding by a report; return a line for people, or an empty text."""
    match event:
        case e.Acknowledged(_, _, position, as_of, lag_ms):
            holding.acknowledged = further(holding.acknowledged or row.checkpoint, position)
            holding.as_of = as_of or holding.as_of
            holding.lag_ms = lag_ms
        case e.GapNoted(_, _, text):
            holding.gap = text
        case e.ShardEnded():
            holding.ended_at = now
        case e.ShardFinished():
            if holding.stage is Stage.FINISHING:
                holding.stage = Stage.FINISHED
        case e.ShardRestarted(shard_id, _, counted):
            holding.failed, holding.counted = "work ended by itself", counted
            return f"work on {shard_id} ended by itself"
        case e.ShardGivenUp(shard_id, _, reason):
            holding.failed, holding.given_up = reason, True
            return f"gave up {shard_id}: {reason}"
        case e.ShardHalted(shard_id, _, reason):
            holding.failed, holding.halted = reason, True
            return f"halted {shard_id}: {reason}"
    return ""


def disbelieve_ends(holdings: Holdings, listing: ListedShards, before: float) -> Iterator[str]:
    """Drop ends from before a time that listings do not confirm; return the shards to read on."""
    for shard_id, holding in holdings.by_shard.items():
        ended_at = holding.ended_at
        if ended_at is None or ended_at > before:
            continue
        if listing.closed_since(shard_id, ended_at) is False:
            holding.ended_at, holding.failed = None, "its end was not confirmed"
            yield shard_id
