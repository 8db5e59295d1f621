"""ListShards: filters, pages and the description of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shardline.local import parameters
from shardline.local.kinesis.tokens import ListingPage, parse_page, token_text
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import ShardLog
    from shardline.local.kinesis.streams import Stream

FILTERS: Final = (
    "AFTER_SHARD_ID",
    "AT_TRIM_HORIZON",
    "FROM_TRIM_HORIZON",
    "AT_LATEST",
    "AT_TIMESTAMP",
    "FROM_TIMESTAMP",
)


def list_shards(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer ListShards."""
    max_results = parameters.integer(request, "MaxResults", 1, 10_000, default=1000)
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
    limit = min(parameters.integer(request, "Limit", 1, 10_000, default=100), 100)
    after = _index_of(parameters.text(request, "ExclusiveStartShardId", required=False))
    shards, visible_reshards = visible_shards(account, stream, "DescribeStream")
    wanted = [shard for shard in shards if shard.index > after]
    return [_description(shard, visible_reshards) for shard in wanted[:limit]], len(wanted) > limit


def _requested_page(
    account: Account, request: dict[str, Any], now_ms: int
) -> tuple[Stream, ListingPage]:
    token = parameters.text(request, "NextToken", required=False)
    if token is not None:
        for name in ("StreamName", "ExclusiveStartShardId", "StreamCreationTimestamp"):
            if request.get(name) is not None:
                raise Refusal(
                    "InvalidArgumentException", f"NextToken and {name} cannot be provided together."
                )
        page = parse_page(token, now_ms)
        stream = account.find(page.stream, now_ms)
        if stream.created_ms != page.created_ms:
            raise Refusal(
                "ResourceNotFoundException", f"Stream {page.stream} was deleted and created again."
            )
        return stream, page
    stream = account.find_requested(request, now_ms)
    if stream.status == "CREATING":
        raise Refusal("ResourceInUseException", f"Stream {stream.name} is being created.")
    after = _index_of(parameters.text(request, "ExclusiveStartShardId", required=False))
    shard_filter = request.get("ShardFilter") or {"Type": "FROM_TRIM_HORIZON"}
    filter_type = parameters.text(shard_filter, "Type")
    if filter_type not in FILTERS:
        raise Refusal(
            "InvalidArgumentException", f"ShardFilter {filter_type} is none of {FILTERS}."
        )
    filter_index, filter_ms = -1, 0
    if filter_type == "AFTER_SHARD_ID":
        filter_index = _index_of(parameters.text(shard_filter, "ShardId"))
    if filter_type.endswith("TIMESTAMP"):
        filter_ms = parameters.time_ms(shard_filter, "Timestamp")
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
    if stale is not None:
        seen = max(0, stream.reshards - stale.reshards)
        return [shard for shard in shards if shard.opened.reshard <= seen], seen
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
    description["HashKeyRange"] = hash_key_range(shard)
    description["SequenceNumberRange"] = numbers
    return description


def hash_key_range(shard: ShardLog) -> dict[str, str]:
    """Return a shard's hash range as a member of an answer."""
    return {
        "StartingHashKey": str(shard.hash_range.start),
        "EndingHashKey": str(shard.hash_range.end),
    }


def _index_of(shard_id: str | None) -> int:
    if shard_id is None:
        return -1
    prefix, _, digits = shard_id.partition("-")
    if prefix != "shardId" or not digits.isdecimal():
        raise Refusal("InvalidArgumentException", f"{shard_id[:140]!r} is not a shard id.")
    return int(digits)
