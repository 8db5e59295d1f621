"""ListShards: filters, pages and the description of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardline.local.kinesis.positions import time_ms
from shardline.local.kinesis.streams import parse_shard_index
from shardline.local.kinesis.tokens import ListingPage, parse_page, token_text
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import ShardLog
    from shardline.local.kinesis.streams import Stream


def list_shards(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer ListShards."""
    max_results: int = request.get("MaxResults", 1000)
    stream, page = _requested_page(account, request, now_ms)
    shards, visible_reshards = visible_shards(account, stream, "ListShards")
    wanted = [shard for shard in shards if shard.index > page.after_index]
    wanted = [shard for shard in wanted if _passes(stream, shard, page)]
    answer: dict[str, Any] = {
        "Shards": [_description(shard, visible_reshards) for shard in wanted[:max_results]]
    }
    if len(wanted) > max_results:
        after = wanted[max_results - 1].index
        rest = ListingPage(
            page.stream,
            page.created_ms,
            after,
            page.filter_type,
            page.filter_index,
            page.filter_ms,
            now_ms,
        )
        answer["NextToken"] = token_text(rest)
    return answer


def describe_shards(
    account: Account, stream: Stream, request: dict[str, Any]
) -> tuple[list[dict[str, Any]], bool]:
    """Return one page of shards for DescribeStream, and true if there are more."""
    limit = min(request.get("Limit", 100), 100)
    after = _requested_index(request, "ExclusiveStartShardId", stream)
    shards, visible_reshards = visible_shards(account, stream, "DescribeStream")
    wanted = [shard for shard in shards if shard.index > after]
    return [_description(shard, visible_reshards) for shard in wanted[:limit]], len(wanted) > limit


def _requested_page(
    account: Account, request: dict[str, Any], now_ms: int
) -> tuple[Stream, ListingPage]:
    token: str | None = request.get("NextToken")
    if token is not None:
        for name in ("StreamName", "ExclusiveStartShardId", "StreamCreationTimestamp"):
            if name in request:
                raise Refusal(
                    "InvalidArgumentException", f"NextToken and {name} cannot be provided together."
                )
        page = parse_page(ListingPage, token, now_ms)
        stream = account.find(page.stream, now_ms)
        if stream.created_ms != page.created_ms:
            raise Refusal(
                "ResourceNotFoundException", f"Stream {page.stream} was deleted and created again."
            )
        return stream, page
    if "StreamName" not in request and "StreamARN" not in request:
        raise Refusal(
            "InvalidArgumentException", "Either NextToken or StreamName should be provided."
        )
    stream = account.find_requested(request, now_ms)
    if not stream.shards:
        raise Refusal(
            "ResourceInUseException",
            f"Stream {stream.name} under account {ACCOUNT_ID} not ACTIVE, "
            f"instead in state {stream.status}",
        )
    after = _requested_index(request, "ExclusiveStartShardId", stream)
    shard_filter: dict[str, Any] = request.get("ShardFilter", {"Type": "FROM_TRIM_HORIZON"})
    filter_type: str = shard_filter["Type"]
    filter_index, filter_ms = -1, 0
    if filter_type == "AFTER_SHARD_ID":
        _require(shard_filter, "ShardId")
        filter_index = _requested_index(shard_filter, "ShardId", stream)
    if filter_type.endswith("TIMESTAMP"):
        _require(shard_filter, "Timestamp")
        filter_ms = time_ms(shard_filter["Timestamp"])
    page = ListingPage(
        stream.name, stream.created_ms, after, filter_type, filter_index, filter_ms, now_ms
    )
    return stream, page


def _passes(stream: Stream, shard: ShardLog, page: ListingPage) -> bool:
    """Return true if a listed shard passes the filter."""
    match page.filter_type:
        case "AFTER_SHARD_ID":
            return shard.index > page.filter_index
        case "AT_LATEST":
            return shard.closed is None
        case "AT_TRIM_HORIZON":
            return _was_open_at_horizon(stream, shard)
        case "AT_TIMESTAMP" if page.filter_ms <= stream.horizon_ms:
            return _was_open_at_horizon(stream, shard)
        case "AT_TIMESTAMP" if page.filter_ms < stream.created_ms:
            return not shard.parents
        case "AT_TIMESTAMP":
            return shard.opened.at_ms <= page.filter_ms <= _closed_ms(shard, page.filter_ms)
        case "FROM_TIMESTAMP":
            return page.filter_ms <= _closed_ms(shard, page.filter_ms)
        case _:
            return True


def _was_open_at_horizon(stream: Stream, shard: ShardLog) -> bool:
    # Every listed shard closed after the horizon; the root shards count as open before the
    # creation of the stream.
    return not shard.parents or shard.opened.at_ms <= stream.horizon_ms


def _closed_ms(shard: ShardLog, if_open: int) -> int:
    return if_open if shard.closed is None else shard.closed.at_ms


def visible_shards(account: Account, stream: Stream, operation: str) -> tuple[list[ShardLog], int]:
    """Return the shards of a listing and the number of reshards that it reflects."""
    shards = stream.listed_shards()
    stale = account.faults.take("stale-listing", operation)
    lag = 0 if stale is None else stale.reshards
    if account.faults.happens(account.settings.stale_listing_one_in, operation, stream.name):
        lag = max(lag, 1)
    if lag:
        visible = max(0, stream.reshards - lag)
        return [shard for shard in shards if shard.opened.reshard <= visible], visible
    if account.faults.take("open-parent", operation) is not None:
        return shards, -1
    return shards, stream.reshards


def _description(shard: ShardLog, visible_reshards: int) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": shard.number(shard.opened.tick)}
    if shard.closed is not None and shard.closed.reshard <= visible_reshards:
        numbers["EndingSequenceNumber"] = shard.number(shard.closed.tick)
    description: dict[str, Any] = {"ShardId": shard.id}
    for name, parent in zip(
        ("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False
    ):
        description[name] = parent.id
    description["HashKeyRange"] = _hash_key_range(shard)
    description["SequenceNumberRange"] = numbers
    return description


def _hash_key_range(shard: ShardLog) -> dict[str, str]:
    return {
        "StartingHashKey": str(shard.hash_range.start),
        "EndingHashKey": str(shard.hash_range.end),
    }


def child_descriptions(shard: ShardLog) -> list[dict[str, Any]]:
    """Return the ChildShards of a closed shard."""
    return [
        {
            "ShardId": child.id,
            "ParentShards": [parent.id for parent in child.parents],
            "HashKeyRange": _hash_key_range(child),
        }
        for child in shard.children
    ]


def _requested_index(request: dict[str, Any], member: str, stream: Stream) -> int:
    shard_id: str | None = request.get(member)
    return -1 if shard_id is None else parse_shard_index(shard_id, stream.name)


def _require(shard_filter: dict[str, Any], member: str) -> None:
    if member not in shard_filter:
        raise Refusal(
            "InvalidArgumentException",
            f"ShardFilter of type {shard_filter['Type']} requires {member}.",
        )
