"""Operations on whole streams: create, delete, describe, list, change the retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shardline.local.kinesis.consumers import existing_consumers
from shardline.local.kinesis.listing import describe_shards
from shardline.local.kinesis.streams import DEFAULT_RECORD_KIB
from shardline.local.kinesis.tags import check_tags
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.streams import Mode, Stream

ON_DEMAND_SHARDS: Final = 4
MIN_RETENTION_HOURS: Final = 24


def create_stream(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer CreateStream."""
    details = request.get("StreamModeDetails", {})
    mode: Mode = details.get("StreamMode", "PROVISIONED")
    if mode == "ON_DEMAND" and "ShardCount" in request:
        raise Refusal("ValidationException", "An ON_DEMAND stream takes no ShardCount.")
    if mode == "PROVISIONED" and "ShardCount" not in request:
        raise Refusal(
            "ValidationException",
            "1 validation error detected: Value null at 'shardCount' failed to satisfy "
            "constraint: Member must not be null",
        )
    tags: dict[str, str] = request.get("Tags", {})
    check_tags(tags, request["StreamName"])
    shard_count = request.get("ShardCount", ON_DEMAND_SHARDS)
    stream = account.create(request["StreamName"], mode, shard_count, now_ms)
    stream.tags.update(tags)
    stream.max_record_kib = request.get("MaxRecordSizeInKiB", DEFAULT_RECORD_KIB)


def delete_stream(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer DeleteStream."""
    stream = account.find_requested(request, now_ms)
    if stream.status == "DELETING":
        raise Refusal(
            "ResourceInUseException",
            f"Stream {stream.name} under account {ACCOUNT_ID} is being deleted.",
        )
    if existing_consumers(stream, now_ms) and not request.get("EnforceConsumerDeletion"):
        raise Refusal(
            "ResourceInUseException",
            f"Stream {stream.name} under account {ACCOUNT_ID} has consumers registered with it.",
        )
    account.delete(stream, now_ms)


def update_record_size(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer UpdateMaxRecordSize."""
    stream = account.find_requested(request, now_ms)
    kib: int = request["MaxRecordSizeInKiB"]

    def effect(_due_ms: int) -> None:
        stream.max_record_kib = kib

    account.change(stream, now_ms, effect)


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
    summary = _description(stream) | {
        "OpenShardCount": len(stream.open_shards),
        "ConsumerCount": len(existing_consumers(stream, now_ms)),
        "MaxRecordSizeInKiB": stream.max_record_kib,
    }
    return {"StreamDescriptionSummary": summary}


def list_streams(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer ListStreams."""
    limit: int = request.get("Limit", 100)
    # The token is the name of the last stream of the previous page.
    after = request.get("NextToken") or request.get("ExclusiveStartStreamName") or ""
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
        "ShardLimit": account.settings.shard_limit,
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
    hours: int = request["RetentionPeriodHours"]
    current = stream.retention_hours
    if hours < MIN_RETENTION_HOURS:
        raise Refusal(
            "InvalidArgumentException",
            f"Minimum allowed retention period is {MIN_RETENTION_HOURS} hours. Requested "
            f"retention period ({hours} hours) is too short.",
        )
    if hours < current if grows else hours > current:
        relation, other = ("shorter", "Decrease") if grows else ("longer", "Increase")
        raise Refusal(
            "InvalidArgumentException",
            f"Requested retention period ({hours} hours) for stream {stream.name} can not be "
            f"{relation} than existing retention period ({current} hours). "
            f"Use {other}RetentionPeriod API.",
        )

    if hours == current:
        stream.require_active()
        return

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
