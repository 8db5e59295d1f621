"""Operations on whole streams: create, delete, describe, list, change the retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shardline.local import parameters
from shardline.local.kinesis.listing import describe_shards
from shardline.local.kinesis.resharding import MAX_SHARDS
from shardline.local.refusals import Refusal

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.streams import Mode, Stream

ON_DEMAND_SHARDS: Final = 4
MAX_RETENTION_HOURS: Final = 365 * 24
MIN_RETENTION_HOURS: Final = 24


def create_stream(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer CreateStream."""
    name = parameters.text(request, "StreamName")
    details = request.get("StreamModeDetails") or {"StreamMode": "PROVISIONED"}
    requested_mode = parameters.text(details, "StreamMode")
    if requested_mode not in ("PROVISIONED", "ON_DEMAND"):
        raise Refusal("ValidationException", f"StreamMode {requested_mode!r} is unknown.")
    mode: Mode = "ON_DEMAND" if requested_mode == "ON_DEMAND" else "PROVISIONED"
    if mode == "ON_DEMAND" and request.get("ShardCount") is not None:
        raise Refusal("ValidationException", "An ON_DEMAND stream takes no ShardCount.")
    default = ON_DEMAND_SHARDS if mode == "ON_DEMAND" else None
    shard_count = parameters.integer(request, "ShardCount", 1, MAX_SHARDS, default)
    account.create(name, mode, shard_count, now_ms)


def delete_stream(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer DeleteStream."""
    stream = account.find_requested(request, now_ms)
    if stream.status == "DELETING":
        raise Refusal("ResourceInUseException", f"Stream {stream.name} is being deleted.")
    account.delete(stream, now_ms)


def describe_stream(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer DescribeStream."""
    stream = account.find_requested(request, now_ms)
    shards, has_more = describe_shards(account, stream, request)
    return {
        "StreamDescription": _description(stream) | {"Shards": shards, "HasMoreShards": has_more}
    }


def describe_stream_summary(
    account: Account, request: dict[str, Any], now_ms: int
) -> dict[str, Any]:
    """Answer DescribeStreamSummary."""
    stream = account.find_requested(request, now_ms)
    counts = {"OpenShardCount": len(stream.open_shards), "ConsumerCount": 0}
    return {"StreamDescriptionSummary": _description(stream) | counts}


def list_streams(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer ListStreams."""
    limit = parameters.integer(request, "Limit", 1, 10_000, default=100)
    # The token is the name of the last stream of the previous page.
    after = (
        parameters.text(request, "NextToken", required=False)
        or parameters.text(request, "ExclusiveStartStreamName", required=False)
        or ""
    )
    streams = [stream for stream in account.streams(now_ms) if stream.name > after]
    page = streams[:limit]
    answer: dict[str, Any] = {
        "StreamNames": [stream.name for stream in page],
        "HasMoreStreams": len(streams) > limit,
        "StreamSummaries": [_summary(stream) for stream in page],
    }
    if len(streams) > limit:
        answer["NextToken"] = page[-1].name
    return answer


def describe_limits(account: Account, _request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer DescribeLimits."""
    streams = account.streams(now_ms)
    return {
        "ShardLimit": MAX_SHARDS,
        "OpenShardCount": sum(len(stream.open_shards) for stream in streams),
        "OnDemandStreamCount": sum(stream.mode == "ON_DEMAND" for stream in streams),
        "OnDemandStreamCountLimit": 50,
    }


def increase_retention(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer IncreaseStreamRetentionPeriod."""
    _change_retention(account, request, now_ms, grows=True)


def decrease_retention(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer DecreaseStreamRetentionPeriod."""
    _change_retention(account, request, now_ms, grows=False)


def _change_retention(
    account: Account, request: dict[str, Any], now_ms: int, *, grows: bool
) -> None:
    stream = account.find_requested(request, now_ms)
    hours = parameters.integer(request, "RetentionPeriodHours", -(2**31), 2**31 - 1)
    wrong_way = hours < stream.retention_hours if grows else hours > stream.retention_hours
    if wrong_way or not MIN_RETENTION_HOURS <= hours <= MAX_RETENTION_HOURS:
        raise Refusal(
            "InvalidArgumentException",
            f"RetentionPeriodHours {hours}: it is {stream.retention_hours} now and must not "
            f"{'fall' if grows else 'rise'}; {MIN_RETENTION_HOURS} to {MAX_RETENTION_HOURS}.",
        )

    def effect(_due_ms: int) -> None:
        stream.retention_hours = hours

    account.change(stream, now_ms, effect)


def _summary(stream: Stream) -> dict[str, Any]:
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": stream.status,
        "StreamModeDetails": {"StreamMode": stream.mode},
        "StreamCreationTimestamp": stream.created_ms / 1000,
    }


def _description(stream: Stream) -> dict[str, Any]:
    return _summary(stream) | {
        "RetentionPeriodHours": stream.retention_hours,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
    }
