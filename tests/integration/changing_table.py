"""A table that is written to at random, and the items that are in it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

    from shardline.local import Service


STREAM_ON = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


def create_things(client: Any, name: str) -> None:
    """Create a table with two keys and a stream."""
    client.create_table(
        TableName=name,
        AttributeDefinitions=[
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "place", "AttributeType": "N"},
        ],
        KeySchema=[
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "place", "KeyType": "RANGE"},
        ],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification=STREAM_ON,
    )


class ChangingTable:
    """A table that is written to at random, and what is in it."""

    def __init__(self, service: Service, rng: random.Random) -> None:
        self.name = f"things-{uuid.uuid4().hex[:12]}"
        self.stored: dict[tuple[str, int], int] = {}
        self._rng = rng
        self._service = service
        self._client = service.client("dynamodb")
        create_things(self._client, self.name)

    def write(self) -> None:
        rng = self._rng
        key = f"{rng.randrange(8)}" * rng.choice((1, 1, 60)), rng.randrange(4)
        names = {"id": {"S": key[0]}, "place": {"N": str(key[1])}}
        if key in self.stored and rng.random() < 0.3:
            del self.stored[key]
            self._client.delete_item(TableName=self.name, Key=names)
        else:
            self.stored[key] = rng.randrange(1_000_000)
            item = {**names, "value": {"N": str(self.stored[key])}}
            self._client.put_item(TableName=self.name, Item=item)

    def reshard(self) -> None:
        now_ms = self._service.clock.now_ms()
        listed = self._service.tables.find_stream(self.name, now_ms).listed(now_ms)
        act = self._service.tables.split if self._rng.random() < 0.7 else self._service.tables.roll
        act(self.name, self._rng.choice([shard.id for shard in listed if shard.last is None]))

    def close(self) -> None:
        self._client.close()
