"""A table and its stream as one: segments are shards, and the parents of the roots."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.lineage import trace
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.errors import ConfigurationError, InvalidPosition, Throttled
from shardline.local import Service
from shardline.services.access import Access
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor
from shardline.services.snapshot_stream import SnapshotSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(strict=True, status_delay_seconds=0) as service:
        yield service


class Table:
    """A table with a range key, and the stream that starts with its items."""

    def __init__(self, service: Service, settings: SnapshotSettings) -> None:
        self.name = f"table-{uuid.uuid4().hex[:12]}"
        self._service = service
        self.client = service.client("dynamodb")
        self.client.create_table(
            TableName=self.name,
            AttributeDefinitions=[
                {"AttributeName": "h", "AttributeType": "B"},
                {"AttributeName": "r", "AttributeType": "N"},
            ],
            KeySchema=[
                {"AttributeName": "h", "KeyType": "HASH"},
                {"AttributeName": "r", "KeyType": "RANGE"},
            ],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )
        self.stream: Any = connect(
            f"dynamodb://{self.name}", Access(endpoint_url=service.endpoint_url), snapshot=settings
        )

    def put(self, hash_key: bytes, range_key: int) -> None:
        item = {"h": {"B": hash_key}, "r": {"N": str(range_key)}, "v": {"BS": [b"\x00", b"\xff"]}}
        self.client.put_item(TableName=self.name, Item=item)

    def split(self) -> None:
        [root] = self.stream._stream.list_shards()
        self._service.tables.split(self.name, root.id)

    def rows(self, position: Any = TRIM_HORIZON, segment: str = "snapshot-0000-of-0001") -> Any:
        cursor = ShardCursor(self.stream, segment, position)
        rows: list[dict[str, Any]] = []
        while not cursor.ended:
            rows += cursor.read(2).records.to_pylist()
        return rows


@contextmanager
def table_of(service: Service, **settings: Any) -> Iterator[Table]:
    table = Table(service, SnapshotSettings(**settings))
    yield table
    table.stream.close()
    table.client.close()


def test_no_shard_is_read_before_all_segments_are(service: Service) -> None:
    with table_of(service, segments=3) as table:
        table.split()
        shards = table.stream.list_shards()
        while len(shards) < 6:  # a listing may be stale
            shards = table.stream.list_shards()
        segments, [root, *children] = [s.id for s in shards[:3]], shards[3:]
        assert [shard.closed for shard in shards] == [True] * 4 + [False] * 2
        assert root.parents == tuple(segments)
        assert [child.parents for child in children] == [(root.id,), (root.id,)]
        assert {s.id for s in table.stream.list_children(segments[0])} == {root.id}
        assert all(table.stream.has_shard(shard.id) for shard in shards)
        drained = segments[:2]
        readable = trace(shards, drained=set(drained), known=set(), gone=set()).readable
        assert [shard.id for shard in readable] == [segments[2]]
        readable = trace(shards, drained=set(segments), known=set(), gone=set()).readable
        assert [shard.id for shard in readable] == [root.id]


def test_a_segment_goes_on_after_any_item_though_that_was_deleted(service: Service) -> None:
    with table_of(service, segments=1) as table:
        for number in range(7):
            table.put(b"\x00\xff", number)
        rows = table.rows()
        assert [row["eventName"] for row in rows] == ["SNAPSHOT"] * 7
        assert rows[0]["keys"] == '{"h":{"B":"AP8="},"r":{"N":"0"}}'
        assert '"BS":["AA==","/w=="]' in rows[0]["newImage"]
        numbers = [SequenceNumber(row["sequenceNumber"]) for row in rows]
        assert numbers == sorted(set(numbers))
        table.client.delete_item(
            TableName=table.name, Key={"h": {"B": b"\x00\xff"}, "r": {"N": "2"}}
        )
        again = table.rows(After(numbers[2]))
        assert [row["keys"] for row in again] == [row["keys"] for row in rows[3:]]
        assert SequenceNumber(again[0]["sequenceNumber"]) > numbers[2]


def test_after_an_item_with_a_long_key_the_segment_starts_again(service: Service) -> None:
    with table_of(service, segments=1) as table:
        for number in range(3):
            table.put(b"x" * 100, number)
        rows = table.rows()
        last = SequenceNumber(rows[1]["sequenceNumber"])
        again = table.rows(After(last))
        assert [row["keys"] for row in again] == [row["keys"] for row in rows]
        assert all(SequenceNumber(row["sequenceNumber"]) > last for row in again)


def test_a_scan_is_kept_at_its_units(service: Service) -> None:
    with table_of(service, segments=2, units_per_second=1.0) as table:
        seconds = 100.0
        table.stream._clock = lambda: seconds
        for number in range(40):
            table.put(bytes([number]), number)
        iterator = table.stream.open("snapshot-0000-of-0002", TRIM_HORIZON)
        first = table.stream.read(iterator, 2)
        with pytest.raises(Throttled, match=r"1\.0 units a second"):
            table.stream.read(first.next_iterator, 2)
        seconds += 10
        assert table.stream.read(first.next_iterator, 2).records.num_rows == 2


def test_what_cannot_be_is_refused(service: Service) -> None:
    with table_of(service, segments=1) as table, pytest.raises(InvalidPosition):
        table.stream.open("snapshot-0000-of-0001", SHARD_END)
    with pytest.raises(ConfigurationError, match="segments"):
        SnapshotSettings(segments=0)
    with pytest.raises(ConfigurationError, match="units"):
        SnapshotSettings(units_per_second=0)
    with pytest.raises(ConfigurationError, match="only a table has a snapshot"):
        connect("kinesis://orders", snapshot=SnapshotSettings())
