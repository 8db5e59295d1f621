"""Short forms of the calls that the tests of the embedded Kinesis make with boto3."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.config import Config

if TYPE_CHECKING:
    from shardline.local import Service

START: Final = datetime(2026, 11, 15, 12, tzinfo=UTC)
"""When the clock of the fixture `service` begins."""
SIGNED: Final = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=local, SignedHeaders=host, Signature=0",
    "X-Amz-Date": "20260101T000000Z",
}
"""Headers of a signed request: the embedded service does not check the signature itself."""


def control(service: Service, path: str, **request: Any) -> dict[str, Any]:
    """Make a call of the control API."""
    call = urllib.request.Request(  # noqa: S310 - our own server
        f"{service.endpoint_url}/_shardline/{path}",
        json.dumps(request).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(call) as answer:  # noqa: S310
        members: dict[str, Any] = json.load(answer)
        return members


def client_of(service: Service) -> Any:
    """A client that tries once, so that a test sees every refusal and cut."""
    return service.client("kinesis", Config(retries={"total_max_attempts": 1}, read_timeout=10))


def shard(index: int) -> str:
    return f"shardId-{index:012d}"


def put(kinesis: Any, stream: dict[str, str], *data: bytes, hash_key: int = 0) -> list[str]:
    return [
        kinesis.put_record(**stream, Data=each, PartitionKey="k", ExplicitHashKey=str(hash_key))[
            "SequenceNumber"
        ]
        for each in data
    ]


def iterator(kinesis: Any, stream: dict[str, str], index: int, kind: str, **more: Any) -> str:
    answer = kinesis.get_shard_iterator(
        **stream, ShardId=shard(index), ShardIteratorType=kind, **more
    )
    text: str = answer["ShardIterator"]
    return text


def read(kinesis: Any, shard_iterator: str, **more: Any) -> tuple[list[bytes], dict[str, Any]]:
    answer: dict[str, Any] = kinesis.get_records(ShardIterator=shard_iterator, **more)
    return [record["Data"] for record in answer["Records"]], answer


def listed(kinesis: Any, **request: Any) -> list[str]:
    return [each["ShardId"] for each in kinesis.list_shards(**request)["Shards"]]
