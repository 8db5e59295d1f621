"""A table that is written to at random, and the items that are in it."""

from __future__ import annotations

import os
import threading
import uuid
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import random

    from shardline.local import Service

_PADDING: Final = 100_000
"""Bytes of a large item: a segment then has several pages."""

STREAM_ON = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


def seeds(count: int) -> range:
    """Return the seeds of a test of snapshots: `make snapshots` asks for more of them."""
    return range(int(os.environ.get("SHARDLINE_SNAPSHOT_SEEDS", count)))


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

    def __init__(self, service: Service, rng: random.Random, *, large: bool = False) -> None:
        """Create the table; some of its items are `large`, if that is asked for."""
        self.name = f"things-{uuid.uuid4().hex[:12]}"
        self.stored: dict[tuple[str, int], int] = {}
        self._rng = rng
        self._large = large
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
            if self._large and rng.random() < 0.3:
                item["padding"] = {"S": "x" * _PADDING}
            self._client.put_item(TableName=self.name, Item=item)

    def reshard(self) -> None:
        now_ms = self._service.clock.now_ms()
        listed = self._service.tables.find_stream(self.name, now_ms).listed(now_ms)
        act = self._service.tables.split if self._rng.random() < 0.7 else self._service.tables.roll
        act(self.name, self._rng.choice([shard.id for shard in listed if shard.last is None]))

    def close(self) -> None:
        self._client.close()


class Load:
    """Writes to a table in a thread, from before a reader starts until the end of the block.

    The reader reports what it has read, so that the table's stream splits in the middle.
    """

    def __init__(
        self, table: ChangingTable, rng: random.Random, pause_seconds: float = 0.01
    ) -> None:
        self._table = table
        self._pause_seconds = pause_seconds
        self._writes_before_split = rng.randrange(20)
        self._writes_after = rng.randrange(5, 40)
        self._items_came, self._changes_came = threading.Event(), threading.Event()
        self._broken_off = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def items_came(self) -> None:
        """Report that the first items of the table were read."""
        self._items_came.set()

    def changes_came(self) -> None:
        """Report that the first change was read."""
        self._changes_came.set()

    def join(self, deadline_seconds: float) -> None:
        """Wait until the last write is done."""
        self._thread.join(deadline_seconds)
        assert not self._thread.is_alive(), "no change was read in time"
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._broken_off.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write_until(self._items_came)
            self._write(self._writes_before_split)
            self._table.reshard()
            self._write_until(self._changes_came)
            self._write(self._writes_after)
        except BaseException as error:
            self._failure = error

    def _write_until(self, event: threading.Event) -> None:
        while not event.wait(self._pause_seconds) and not self._broken_off.is_set():
            self._table.write()

    def _write(self, count: int) -> None:
        for _ in range(count):
            self._table.write()
