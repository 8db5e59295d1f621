"""The shapes of the Kinesis requests, as in the service's public API model."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec

from shardline.local.validation import (
    Blob,
    Boolean,
    Integer,
    ListOf,
    MapOf,
    Shape,
    Structure,
    Text,
    Timestamp,
    is_blob,
    validate,
)

MAX_DATA_BYTES: Final = 10 * 1024 * 1024
MAX_PUT_RECORDS: Final = 500
MAX_READ_RECORDS: Final = 10_000
MAX_TAGS: Final = 50
POSITIONS: Final = (
    "AFTER_SEQUENCE_NUMBER",
    "LATEST",
    "AT_TIMESTAMP",
    "AT_SEQUENCE_NUMBER",
    "TRIM_HORIZON",
)
SHARD_FILTERS: Final = (
    "AFTER_SHARD_ID",
    "AT_TRIM_HORIZON",
    "FROM_TRIM_HORIZON",
    "AT_LATEST",
    "AT_TIMESTAMP",
    "FROM_TIMESTAMP",
)

_NAME: Final = "[a-zA-Z0-9_.-]+"
_STREAM_NAME: Final = Text(1, 128, _NAME)
_STREAM_ARN: Final = Text(1, 2048, r"arn:aws.*:kinesis:.*:\d{12}:stream/\S+")
_CONSUMER_ARN: Final = Text(
    1,
    2048,
    r"^(arn):aws.*:kinesis:.*:\d{12}:.*stream\/[a-zA-Z0-9_.-]+\/consumer\/[a-zA-Z0-9_.-]+:[0-9]+",
)
_RESOURCE_ARN: Final = Text(1, 2048, r"arn:aws.*:kinesis:.*:\d{12}:.*stream/\S+")
_SHARD_ID: Final = Text(1, 128, _NAME)
_HASH_KEY: Final = Text(pattern=r"0|([1-9]\d{0,38})")
_SEQUENCE: Final = Text(pattern=r"0|([1-9]\d{0,128})")
_PARTITION_KEY: Final = Text(1, 256)
_TOKEN: Final = Text(1, 1_048_576)
_PAGE_LIMIT: Final = Integer(1, 10_000)
_TAG_KEY: Final = Text(1, 128)
_TAGS: Final = MapOf(_TAG_KEY, Text(0, 256), 1, 200)
_RECORD_SIZE: Final = Integer(1024, 10_240)
_ENTRY: Final = Structure(
    {
        "PartitionKey": _PARTITION_KEY,
        "ExplicitHashKey": _HASH_KEY,
        "Data": Blob(MAX_DATA_BYTES),
    },
    ("PartitionKey", "Data"),
)


def _of_stream(members: dict[str, Shape], *required: str) -> Structure:
    """Return the shape of a request that names its stream by StreamName or StreamARN."""
    members = {**members, "StreamName": _STREAM_NAME, "StreamARN": _STREAM_ARN}
    return Structure(members, required, ("StreamName", "StreamARN"))


def _of_consumer() -> Structure:
    return Structure(
        {
            "StreamARN": _STREAM_ARN,
            "ConsumerName": Text(1, 128, _NAME),
            "ConsumerARN": _CONSUMER_ARN,
        }
    )


_SHAPES: Final[dict[str, Structure]] = {
    "AddTagsToStream": _of_stream({"Tags": MapOf(_TAG_KEY, Text(0, 256), 1, 10)}, "Tags"),
    "CreateStream": Structure(
        {
            "ShardCount": Integer(1, 100_000),
            "StreamName": _STREAM_NAME,
            "StreamModeDetails": Structure(
                {"StreamMode": Text(choices=("PROVISIONED", "ON_DEMAND"))}, ("StreamMode",)
            ),
            "Tags": _TAGS,
            "MaxRecordSizeInKiB": _RECORD_SIZE,
        },
        ("StreamName",),
    ),
    "DecreaseStreamRetentionPeriod": _of_stream(
        {"RetentionPeriodHours": Integer(1, 8760)}, "RetentionPeriodHours"
    ),
    "DeleteStream": _of_stream({"EnforceConsumerDeletion": Boolean()}),
    "DeregisterStreamConsumer": _of_consumer(),
    "DescribeLimits": Structure(),
    "DescribeStream": _of_stream({"Limit": _PAGE_LIMIT, "ExclusiveStartShardId": _SHARD_ID}),
    "DescribeStreamConsumer": _of_consumer(),
    "DescribeStreamSummary": _of_stream({}),
    "GetRecords": Structure(
        {
            "Limit": Integer(1, MAX_READ_RECORDS),
            "ShardIterator": Text(1, 512),
            "StreamARN": _STREAM_ARN,
        },
        ("ShardIterator",),
    ),
    "GetShardIterator": _of_stream(
        {
            "ShardId": _SHARD_ID,
            "ShardIteratorType": Text(choices=POSITIONS),
            "StartingSequenceNumber": _SEQUENCE,
            "Timestamp": Timestamp(),
        },
        "ShardId",
        "ShardIteratorType",
    ),
    "IncreaseStreamRetentionPeriod": _of_stream(
        {"RetentionPeriodHours": Integer(1, 8760)}, "RetentionPeriodHours"
    ),
    "ListShards": Structure(
        {
            "StreamName": _STREAM_NAME,
            "StreamARN": _STREAM_ARN,
            "MaxResults": _PAGE_LIMIT,
            "ExclusiveStartShardId": _SHARD_ID,
            "NextToken": _TOKEN,
            "StreamCreationTimestamp": Timestamp(),
            "ShardFilter": Structure(
                {
                    "Type": Text(choices=SHARD_FILTERS),
                    "ShardId": _SHARD_ID,
                    "Timestamp": Timestamp(),
                },
                ("Type",),
            ),
        }
    ),
    "ListStreamConsumers": Structure(
        {
            "StreamARN": _STREAM_ARN,
            "MaxResults": _PAGE_LIMIT,
            "NextToken": _TOKEN,
            "StreamCreationTimestamp": Timestamp(),
        },
        ("StreamARN",),
    ),
    "ListStreams": Structure(
        {"Limit": _PAGE_LIMIT, "ExclusiveStartStreamName": _STREAM_NAME, "NextToken": _TOKEN}
    ),
    "ListTagsForResource": Structure({"ResourceARN": _RESOURCE_ARN}, ("ResourceARN",)),
    "ListTagsForStream": _of_stream(
        {"Limit": Integer(1, MAX_TAGS), "ExclusiveStartTagKey": _TAG_KEY}
    ),
    "MergeShards": _of_stream(
        {"ShardToMerge": _SHARD_ID, "AdjacentShardToMerge": _SHARD_ID},
        "ShardToMerge",
        "AdjacentShardToMerge",
    ),
    "PutRecord": _of_stream(
        {**_ENTRY.members, "SequenceNumberForOrdering": _SEQUENCE}, *_ENTRY.required
    ),
    "PutRecords": _of_stream({"Records": ListOf(_ENTRY, 1, MAX_PUT_RECORDS)}, "Records"),
    "RegisterStreamConsumer": Structure(
        {"StreamARN": _STREAM_ARN, "ConsumerName": Text(1, 128, _NAME), "Tags": _TAGS},
        ("StreamARN", "ConsumerName"),
    ),
    "RemoveTagsFromStream": _of_stream({"TagKeys": ListOf(_TAG_KEY, 1, MAX_TAGS)}, "TagKeys"),
    "SplitShard": _of_stream(
        {"NewStartingHashKey": _HASH_KEY, "ShardToSplit": _SHARD_ID},
        "NewStartingHashKey",
        "ShardToSplit",
    ),
    "SubscribeToShard": Structure(
        {
            "ConsumerARN": _CONSUMER_ARN,
            "ShardId": _SHARD_ID,
            "StartingPosition": Structure(
                {
                    "Type": Text(choices=POSITIONS),
                    "SequenceNumber": _SEQUENCE,
                    "Timestamp": Timestamp(),
                },
                ("Type",),
            ),
        },
        ("ConsumerARN", "ShardId", "StartingPosition"),
    ),
    "TagResource": Structure(
        {"Tags": _TAGS, "ResourceARN": _RESOURCE_ARN}, ("Tags", "ResourceARN")
    ),
    "UntagResource": Structure(
        {"TagKeys": ListOf(_TAG_KEY, 1, MAX_TAGS), "ResourceARN": _RESOURCE_ARN},
        ("TagKeys", "ResourceARN"),
    ),
    "UpdateMaxRecordSize": Structure(
        {"StreamARN": _STREAM_ARN, "MaxRecordSizeInKiB": _RECORD_SIZE},
        ("StreamARN", "MaxRecordSizeInKiB"),
    ),
    "UpdateShardCount": _of_stream(
        {
            "TargetShardCount": Integer(1),
            "ScalingType": Text(choices=("UNIFORM_SCALING",)),
        },
        "TargetShardCount",
        "ScalingType",
    ),
}


_CREATE_PROVISIONED: Final = replace(_SHAPES["CreateStream"], required=("ShardCount", "StreamName"))
"""Only an ON_DEMAND stream is created without a number of shards."""


class _QuickEntry(msgspec.Struct, rename="pascal", gc=False):
    data: Any
    partition_key: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    explicit_hash_key: Annotated[str, msgspec.Meta(pattern=r"^(0|[1-9][0-9]{0,38})\Z")] | None = (
        None
    )


class _QuickPutRecords(msgspec.Struct, rename="pascal"):
    """The shape of PutRecords without its rare members, for a quick check of many records."""

    records: Annotated[list[_QuickEntry], msgspec.Meta(min_length=1, max_length=MAX_PUT_RECORDS)]
    stream_name: Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=f"^{_NAME}$")]
    stream_a_r_n: None = msgspec.field(default=None, name="StreamARN")


def checked(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a request of a known operation, or raise `Refusal`."""
    if operation == "PutRecords" and _conforms_quickly(request):
        return request
    shape = _SHAPES[operation]
    if operation == "CreateStream" and request.get("StreamModeDetails") is None:
        shape = _CREATE_PROVISIONED
    return validate(request, shape)


def _conforms_quickly(request: dict[str, Any]) -> bool:
    try:
        quick = msgspec.convert(request, _QuickPutRecords)
    except msgspec.ValidationError:
        return False
    return all(is_blob(entry.data, MAX_DATA_BYTES) for entry in quick.records)
