"""SplitShard, MergeShards and UpdateShardCount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shardline.local import parameters
from shardline.local.kinesis.streams import uniform_ranges
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import ShardLog
    from shardline.local.kinesis.streams import Stream

MAX_SHARDS: Final = 10_000


def split_shard(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer SplitShard."""
    stream = _provisioned(account, request, now_ms)
    shard = _open_shard(stream, parameters.text(request, "ShardToSplit"))
    new_start = parameters.hash_key(
        parameters.text(request, "NewStartingHashKey"), "NewStartingHashKey"
    )
    if not shard.hash_range.start + 1 < new_start < shard.hash_range.end:
        raise Refusal(
            "InvalidArgumentException",
            f"NewStartingHashKey {new_start} is not both greater than one plus the "
            f"StartingHashKey {shard.hash_range.start} and less than the EndingHashKey "
            f"{shard.hash_range.end} of shard {shard.id}.",
        )
    account.change(stream, now_ms, lambda due_ms: _split(stream, shard, new_start, due_ms))


def merge_shards(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer MergeShards."""
    stream = _provisioned(account, request, now_ms)
    shard = _open_shard(stream, parameters.text(request, "ShardToMerge"))
    adjacent = _open_shard(stream, parameters.text(request, "AdjacentShardToMerge"))
    if not shard.hash_range.touches(adjacent.hash_range):
        raise Refusal(
            "InvalidArgumentException", f"Shards {shard.id} and {adjacent.id} are not adjacent."
        )
    account.change(stream, now_ms, lambda due_ms: _merge(stream, shard, adjacent, due_ms))


def update_shard_count(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer UpdateShardCount."""
    stream = _provisioned(account, request, now_ms)
    target = parameters.integer(request, "TargetShardCount", 1, MAX_SHARDS)
    if parameters.text(request, "ScalingType") != "UNIFORM_SCALING":
        raise Refusal("ValidationException", "ScalingType must be UNIFORM_SCALING.")
    current = len(stream.open_shards)
    if account.limits.enabled and not current <= 2 * target <= 4 * current:
        raise Refusal(
            "LimitExceededException",
            f"{target} shards are more than double or less than half of the current {current}.",
        )
    account.change(stream, now_ms, lambda due_ms: scale_uniformly(stream, target, due_ms))
    return {
        "StreamName": stream.name,
        "CurrentShardCount": current,
        "TargetShardCount": target,
        "StreamARN": stream.arn,
    }


def scale_uniformly(stream: Stream, target: int, now_ms: int) -> None:
    """Reshard to `target` uniform ranges: split at every new bound, then merge between bounds."""
    wanted = uniform_ranges(target)
    for bound in (hash_range.start for hash_range in wanted[1:]):
        shard = stream.shard_for(bound)
        if shard.hash_range.start != bound:
            stream.split(shard, bound, now_ms)
    for hash_range in wanted:
        shard = stream.shard_for(hash_range.start)
        while shard.hash_range.end < hash_range.end:
            shard = stream.merge(shard, stream.shard_for(shard.hash_range.end + 1), now_ms)


def _split(stream: Stream, shard: ShardLog, new_start: int, now_ms: int) -> None:
    stream.split(shard, new_start, now_ms)


def _merge(stream: Stream, shard: ShardLog, adjacent: ShardLog, now_ms: int) -> None:
    stream.merge(shard, adjacent, now_ms)


def _provisioned(account: Account, request: dict[str, Any], now_ms: int) -> Stream:
    stream = account.find_requested(request, now_ms)
    if stream.mode == "ON_DEMAND":
        raise Refusal(
            "ValidationException",
            f"Stream {stream.name} is ON_DEMAND: only PROVISIONED streams are resharded by hand.",
        )
    stream.require_active()
    return stream


def _open_shard(stream: Stream, shard_id: str) -> ShardLog:
    shard = stream.find_shard(shard_id)
    if shard.closed is not None:
        raise Refusal(
            "InvalidArgumentException",
            f"Shard {shard.id} in stream {stream.name} has already been split or merged.",
        )
    return shard
