"""Fixtures for the tests of consumers: pytest finds them wherever shardline is installed.

    shardline_service   the embedded service, one for the whole run
    kinesis_stream      creates a stream: `orders = kinesis_stream(shards=2)`
    dynamodb_table      creates a table with a stream: `users = dynamodb_table()`
    promise_checker     judges at the end of the test what it was given

Nothing is imported before a test asks for a fixture.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.core.promise import PromiseChecker
    from shardline.local import Service

_PAUSES: Final = {"Delay": 0.1, "MaxAttempts": 600}
"""Of the waiters: the embedded service needs less than a second."""


@dataclass(frozen=True)
class CreatedStream:
    """A stream or table on the embedded service."""

    name: str
    address: str
    """What shardline takes: `kinesis://name` or `dynamodb://name`."""
    endpoint_url: str
    client: Any
    """A boto3 client, of Kinesis or of DynamoDB."""


class CreateStream(Protocol):
    """Creates a Kinesis stream."""

    def __call__(self, name: str | None = None, *, shards: int = 1) -> CreatedStream:
        """Return a new stream with a name of its own unless one is given."""


class CreateTable(Protocol):
    """Creates a DynamoDB table with a stream."""

    def __call__(
        self,
        name: str | None = None,
        *,
        hash_key: str = "id",
        range_key: str | None = None,
        view_type: str = "NEW_AND_OLD_IMAGES",
    ) -> CreatedStream:
        """Return a new table whose keys are texts."""


@pytest.fixture(scope="session")
def shardline_service() -> Iterator[Service]:
    """Run the embedded service: Kinesis, DynamoDB and DynamoDB Streams, on a free port."""
    from shardline.local import Service

    with Service() as service:
        yield service


@pytest.fixture
def kinesis_stream(shardline_service: Service) -> Iterator[CreateStream]:
    """Return a function that creates Kinesis streams, deleted after the test."""
    client = shardline_service.client("kinesis")
    created: list[str] = []

    def create(name: str | None = None, *, shards: int = 1) -> CreatedStream:
        name = name or f"stream-{uuid.uuid4().hex[:12]}"
        client.create_stream(StreamName=name, ShardCount=shards)
        created.append(name)
        client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig=_PAUSES)
        return CreatedStream(name, f"kinesis://{name}", shardline_service.endpoint_url, client)

    yield create
    for name in created:
        client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
    client.close()


@pytest.fixture
def dynamodb_table(shardline_service: Service) -> Iterator[CreateTable]:
    """Return a function that creates tables with a stream, deleted after the test."""
    client = shardline_service.client("dynamodb")
    created: list[str] = []

    def create(
        name: str | None = None,
        *,
        hash_key: str = "id",
        range_key: str | None = None,
        view_type: str = "NEW_AND_OLD_IMAGES",
    ) -> CreatedStream:
        name = name or f"table-{uuid.uuid4().hex[:12]}"
        keys = [hash_key] if range_key is None else [hash_key, range_key]
        client.create_table(
            TableName=name,
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
            KeySchema=[
                {"AttributeName": key, "KeyType": kind}
                for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
            ],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": view_type},
        )
        created.append(name)
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig=_PAUSES)
        return CreatedStream(name, f"dynamodb://{name}", shardline_service.endpoint_url, client)

    yield create
    for name in created:
        client.delete_table(TableName=name)
    client.close()


@pytest.fixture
def promise_checker() -> Iterator[PromiseChecker]:
    """Return a checker. After the test it raises `PromiseBroken` if order or a record was lost."""
    from shardline.core.promise import PromiseChecker

    checker = PromiseChecker()
    yield checker
    checker.verdict().require()
