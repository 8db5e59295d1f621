"""What the embedded Kinesis refuses, it refuses by the service's own exception names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from shardline.local import Service
from tests.integration.kinesis_calls import client_of, shard

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def kinesis() -> Iterator[Any]:
    with Service() as service:
        kinesis = client_of(service)
        kinesis.create_stream(StreamName="orders", ShardCount=2)
        yield kinesis


@pytest.mark.parametrize(
    ("operation", "request_", "name"),
    [
        ("describe_stream", {"StreamName": "none"}, "ResourceNotFoundException"),
        ("put_record", {"StreamName": "none", "Data": b"", "PartitionKey": "k"},
         "ResourceNotFoundException"),
        ("list_shards", {}, "InvalidArgumentException"),
        ("create_stream", {"StreamName": "orders", "ShardCount": 1}, "ResourceInUseException"),
        ("create_stream", {"StreamName": "bad name", "ShardCount": 1}, "ValidationException"),
        ("create_stream", {"StreamName": "shardless"}, "ValidationException"),
        ("get_shard_iterator",
         {"StreamName": "orders", "ShardId": shard(9), "ShardIteratorType": "LATEST"},
         "ResourceNotFoundException"),
        ("get_shard_iterator",
         {"StreamName": "orders", "ShardId": shard(0), "ShardIteratorType": "SOMEWHERE"},
         "ValidationException"),
        ("get_shard_iterator",
         {"StreamName": "orders", "ShardId": shard(0), "ShardIteratorType": "AT_SEQUENCE_NUMBER"},
         "InvalidArgumentException"),
        ("get_shard_iterator",
         {"StreamName": "orders", "ShardId": shard(0), "ShardIteratorType": "AT_SEQUENCE_NUMBER",
          "StartingSequenceNumber": "123"}, "InvalidArgumentException"),
        ("get_records", {"ShardIterator": "nonsense"}, "InvalidArgumentException"),
        ("put_record", {"StreamName": "orders", "Data": bytes(2**20 + 1), "PartitionKey": "k"},
         "ValidationException"),
        ("put_record", {"StreamName": "orders", "Data": b"", "PartitionKey": "k" * 257},
         "ValidationException"),
        ("put_record", {"StreamName": "orders", "Data": b"", "PartitionKey": "k",
                        "ExplicitHashKey": str(2**128)}, "InvalidArgumentException"),
        ("put_records", {"StreamName": "orders",
                         "Records": [{"Data": b"", "PartitionKey": "k"}] * 501},
         "ValidationException"),
        ("split_shard", {"StreamName": "orders", "ShardToSplit": shard(0),
                         "NewStartingHashKey": str(2**127)}, "InvalidArgumentException"),
        ("merge_shards", {"StreamName": "orders", "ShardToMerge": shard(0),
                          "AdjacentShardToMerge": shard(0)}, "InvalidArgumentException"),
        ("increase_stream_retention_period",
         {"StreamName": "orders", "RetentionPeriodHours": 12}, "InvalidArgumentException"),
        ("start_stream_encryption",
         {"StreamName": "orders", "EncryptionType": "KMS", "KeyId": "k"},
         "UnknownOperationException"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_the_services_own_names(
    kinesis: Any, operation: str, request_: dict[str, Any], name: str
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(kinesis, operation)(**request_)
    assert refused.value.response["Error"]["Code"] == name
    # AWS says nothing about an operation that it does not know.
    assert refused.value.response["Error"]["Message"] or name == "UnknownOperationException"


def test_a_closed_shard_cannot_be_resharded_again(kinesis: Any) -> None:
    kinesis.split_shard(StreamName="orders", ShardToSplit=shard(0), NewStartingHashKey="1000")
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        kinesis.split_shard(StreamName="orders", ShardToSplit=shard(0), NewStartingHashKey="1000")
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        kinesis.merge_shards(
            StreamName="orders", ShardToMerge=shard(1), AdjacentShardToMerge=shard(0)
        )
