"""SplitShard, MergeShards and UpdateShardCount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.local.kinesis.account import requested_name
from shardline.local.kinesis.streams import parse_shard_index, uniform_ranges
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import ShardLog
    from shardline.local.kinesis.streams import Stream


def split_shard(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer SplitShard."""
    stream, (shard,) = _open_shards(account, request, ("ShardToSplit",), now_ms)
    new_start = int(request["NewStartingHashKey"])
    if not shard.hash_range.start + 1 < new_start < shard.hash_range.end:
        raise Refusal(
            "InvalidArgumentException",
            f"NewStartingHashKey {new_start} used in SplitShard() on shard {shard.id} in stream "
            f"{stream.name} under account {ACCOUNT_ID} is not both greater than one plus the "
            f"shard's StartingHashKey {shard.hash_range.start} and less than the shard's "
            f"EndingHashKey {shard.hash_range.end}.",
        )
    account.require_room(1, now_ms)
    account.change(stream, now_ms, lambda due_ms: stream.split(shard, new_start, due_ms))


def merge_shards(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer MergeShards."""
    members = ("ShardToMerge", "AdjacentShardToMerge")
    stream, (shard, adjacent) = _open_shards(account, request, members, now_ms)
    if shard.hash_range.end + 1 != adjacent.hash_range.start:
        raise Refusal(
            "InvalidArgumentException",
            f"Shards {shard.id} and {adjacent.id} in stream {stream.name} under account "
            f"{ACCOUNT_ID} are not an adjacent pair of shards eligible for merging",
        )
    account.change(stream, now_ms, lambda due_ms: stream.merge(shard, adjacent, due_ms))


def update_shard_count(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer UpdateShardCount."""
    stream = account.find_requested(request, now_ms)
    _require_changeable(stream)
    target: int = request["TargetShardCount"]
    current = len(stream.open_shards)
    account.require_room(target - current, now_ms)
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


def _open_shards(
    account: Account, request: dict[str, Any], members: tuple[str, ...], now_ms: int
) -> tuple[Stream, list[ShardLog]]:
    """Return the stream and the open shards that a request names, or raise `Refusal`."""
    name = requested_name(request)
    for member in members:
        parse_shard_index(request[member], name)
    stream = account.find(name, now_ms)
    if stream.status == "CREATING":
        stream.require_active()
    shards = [stream.find_shard(request[member]) for member in members]
    _require_changeable(stream)
    for shard in shards:
        if shard.closed is not None:
            raise Refusal(
                "InvalidArgumentException",
                f"Shard {shard.id} in stream {stream.name} under account {ACCOUNT_ID} has already "
                "been merged or split, and thus is not eligible for merging or splitting.",
            )
    return stream, shards


def _require_changeable(stream: Stream) -> None:
    if stream.mode == "ON_DEMAND":
        raise Refusal(
            "ValidationException",
            f"Stream {stream.name} is ON_DEMAND: only PROVISIONED streams are resharded by hand.",
        )
    stream.require_active()
