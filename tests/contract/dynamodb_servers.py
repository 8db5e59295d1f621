"""The servers that keep DynamoDB Streams, each as the stream of a fresh table."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.access import Access, make_client
from shardline.services.addresses import parse_address
from shardline.services.calls import Patience
from shardline.services.dynamodb_streams import DynamoDBStream
from tests.contract.reading import wait_until
from tests.twins.dynamodb_streams import DynamoDBTwin

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from shardline.local import Service
    from shardline.services.port import StreamService

OURS: Final = ("twin", "shardline")
"""The only ones whose shards can be split."""

SERVERS: Final = (
    *OURS,
    "dynamodb_local",
    "ministack",
    *(["aws"] if os.environ.get("SHARDLINE_TEST_AWS") == "1" else []),
)
PATIENCE: Final = Patience(total_seconds=10)


class TableUnderTest(Protocol):
    """A table with a stream, and what an application does to it."""

    service: StreamService

    def write(self, key: str, value: str) -> None:
        """Write an item, over the old one if there is any."""

    def remove(self, key: str) -> None:
        """Delete an item."""


@dataclass
class OverTheWire:
    """A table of a server that keeps items."""

    client: Any
    access: Access
    name: str

    def __post_init__(self) -> None:
        self.service: StreamService = connect(self.access, f"dynamodb://{self.name}")

    def write(self, key: str, value: str) -> None:
        self.client.put_item(TableName=self.name, Item=_item(key, value))

    def remove(self, key: str) -> None:
        self.client.delete_item(TableName=self.name, Key={"id": {"S": key}})


@dataclass
class OurTable(OverTheWire):
    """A table of the embedded service, whose shards can be split."""

    tables: Tables

    def split(self, shard_id: str) -> list[str]:
        return self.tables.split(self.name, shard_id).children

    def roll(self, shard_id: str) -> str:
        [child] = self.tables.roll(self.name, shard_id).children
        return child


@dataclass
class OnlyItsStream:
    """A table of ours, which consists of nothing but its stream."""

    tables: Tables
    name: str
    service: StreamService
    access: Access | None = None
    items: dict[str, str] = field(default_factory=dict)

    def write(self, key: str, value: str) -> None:
        old = self.items.get(key)
        self.items[key] = value
        self._change(key, old, value)

    def remove(self, key: str) -> None:
        self._change(key, self.items.pop(key), None)

    def split(self, shard_id: str) -> list[str]:
        return self.tables.split(self.name, shard_id).children

    def roll(self, shard_id: str) -> str:
        [child] = self.tables.roll(self.name, shard_id).children
        return child

    def _change(self, key: str, old: str | None, new: str | None) -> None:
        self.tables.put_change(
            self.name,
            {"id": {"S": key}},
            old=None if old is None else _item(key, old),
            new=None if new is None else _item(key, new),
        )


def connect(access: Access, address: str, **options: Any) -> DynamoDBStream:
    """Return the stream at an address, with little patience."""
    client = make_client("dynamodbstreams", access)
    return DynamoDBStream(client, parse_address(address), PATIENCE, **options)


def _item(key: str, value: str) -> dict[str, dict[str, str]]:
    return {"id": {"S": key}, "value": {"S": value}}


@contextmanager
def new_table(server: str, request: pytest.FixtureRequest) -> Iterator[TableUnderTest]:
    """Make a table with a stream on a server, and delete it afterwards."""
    name = f"contract-{uuid.uuid4().hex[:12]}"
    if server == "twin":
        tables = Tables(Clock())
        tables.create_table(name)
        yield OnlyItsStream(tables, name, DynamoDBTwin(tables, name))
        return
    local: Service | None = None
    if server == "shardline":
        local = request.getfixturevalue("shardline_local")
        url = local.endpoint_url
    else:
        url = None if server == "aws" else request.getfixturevalue(server).endpoint_url
    access = Access(endpoint_url=url)
    client = make_client("dynamodb", access)
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    table = OverTheWire(client, access, name)
    if local is not None:
        table = OurTable(client, access, name, local.tables)
    try:
        wait_until(
            lambda: client.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE",
            f"{name} is active",
        )
        yield table
    finally:
        client.delete_table(TableName=name)
        table.service.close()
        client.close()
