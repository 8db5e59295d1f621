"""Faults of the embedded service: nothing is lost, and nothing is repeated."""

from __future__ import annotations

import logging
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import PositionTrimmed, ServiceUnreachable, ShardNotFound, Throttled
from shardline.local import Clock, Service
from shardline.services.access import Access, make_client
from shardline.services.addresses import parse_address
from shardline.services.calls import Patience
from shardline.services.cursor import ShardCursor
from shardline.services.dynamodb_streams import DynamoDBStream
from shardline.services.kinesis import KinesisStream
from shardline.services.listing import gone_shards
from tests.contract.reading import rows_of, rows_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.local.faults import FaultKind

PASSING: list[FaultKind] = ["throttle", "internal-failure", "cut", "lose-reply"]
START = datetime(2026, 11, 15, tzinfo=UTC)


class World:
    """The embedded service, its clock standing still, and readers that need not wait."""

    def __init__(self, service: Service) -> None:
        self.local = service
        self.clock = service.clock
        self.faults = service.faults
        self.slept: list[float] = []
        self.access = Access(endpoint_url=service.endpoint_url, read_timeout_seconds=0.5)
        self.producer = service.client()

    def stream(self, name: str, shards: int = 1, **patience: Any) -> KinesisStream:
        self.producer.create_stream(StreamName=name, ShardCount=shards)
        client = make_client("kinesis", self.access)
        return KinesisStream(client, parse_address(f"kinesis://{name}"), self._patience(**patience))

    def table(self, name: str) -> DynamoDBStream:
        self.local.tables.create_table(name)
        client = make_client("dynamodbstreams", self.access)
        return DynamoDBStream(client, parse_address(f"dynamodb://{name}"), self._patience())

    def put(self, name: str, count: int, hash_key: int = 0) -> list[bytes]:
        written = [f"{hash_key}-{n}".encode() for n in range(count)]
        for data in written:
            self.clock.advance(0.001)
            self.producer.put_record(
                StreamName=name, PartitionKey="k", Data=data, ExplicitHashKey=str(hash_key)
            )
        return written

    def change(self, table: str, count: int, start: int = 0) -> list[str]:
        values = [f"{n}" for n in range(start, start + count)]
        for value in values:
            self.clock.advance(60)
            item = {"id": {"S": value}}
            self.local.tables.put_change(table, item, new=item)
        return values

    def _patience(self, **options: Any) -> Patience:
        return Patience(sleep=self.slept.append, chance=random.Random(0).random, **options)


@pytest.fixture
def world() -> Iterator[World]:
    with Service(clock=Clock(START)) as service:
        yield World(service)


def data_of(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["data"] for row in rows]


def ids_of(rows: list[dict[str, Any]]) -> list[str]:
    return [row["keys"].split('"')[-2] for row in rows]


@pytest.mark.case("R-11")
@pytest.mark.parametrize("kind", PASSING)
def test_a_fault_that_passes_is_waited_out_and_said(
    world: World, kind: FaultKind, caplog: pytest.LogCaptureFixture
) -> None:
    stream = world.stream("orders")
    written = world.put("orders", 20)
    [shard] = stream.list_shards()
    for operation in ("GetRecords", "GetShardIterator", "ListShards"):
        world.faults.add(kind, operation, times=2)
    with caplog.at_level(logging.WARNING, "shardline.services"):
        assert stream.list_shards() == (shard,)
        rows = rows_of(ShardCursor(stream, shard.id, TRIM_HORIZON), 20, page=2)
    assert data_of(rows) == written
    # A read that was throttled is repeated by its cursor, as its pace allows.
    waited_for = 2 if kind == "throttle" else 3
    assert len(world.slept) == 2 * waited_for
    lines = [line for line in caplog.records if line.name == "shardline.services.calls"]
    assert len(lines) == 2  # one a minute for the shard, and one for calls that name none


@pytest.mark.case("R-11")
def test_a_read_that_is_throttled_is_said_at_once_for_its_pace_to_decide(world: World) -> None:
    for stream in (world.stream("orders"), world.table("users")):
        [shard] = stream.list_shards()
        iterator = stream.open(shard.id, TRIM_HORIZON)
        world.faults.add("throttle", "GetRecords")
        with pytest.raises(Throttled):
            stream.read(iterator, 10)
        assert stream.read(iterator, 10).next_iterator is not None
    assert world.slept == []


@pytest.mark.case("R-11")
def test_a_service_that_hangs_is_timed_out_and_asked_again(world: World) -> None:
    stream = world.stream("orders")
    written = world.put("orders", 3)
    [shard] = stream.list_shards()
    world.faults.add("hang", "GetRecords", times=1)
    rows = rows_of(ShardCursor(stream, shard.id, TRIM_HORIZON), 3)
    assert data_of(rows) == written
    assert len(world.slept) == 1


@pytest.mark.parametrize(
    ("kind", "error"), [("throttle", Throttled), ("internal-failure", ServiceUnreachable)]
)
def test_a_fault_that_does_not_pass_is_an_error_in_the_end(
    world: World, kind: FaultKind, error: type[Exception]
) -> None:
    stream = world.stream("orders", total_seconds=0)
    world.faults.add(kind, "ListShards", times=None)
    with pytest.raises(error, match="gave up"):
        stream.list_shards()


@pytest.mark.case("R-12")
def test_an_error_on_one_shard_loses_nothing_of_another(world: World) -> None:
    stream = world.stream("orders", shards=2, total_seconds=0)
    low, high = stream.list_shards()
    assert high.hash_range is not None
    written = world.put("orders", 6), world.put("orders", 6, high.hash_range.start)
    cursors = [ShardCursor(stream, shard.id, TRIM_HORIZON) for shard in (low, high)]
    rows: list[list[dict[str, Any]]] = [[], []]
    failed = 0
    for turn in range(6):
        if turn == 2:
            world.faults.add("internal-failure", "GetRecords", shard_id=high.id, times=2)
        for cursor, found in zip(cursors, rows, strict=True):
            before = cursor.position
            try:
                found += cursor.read(2).records.to_pylist()
            except ServiceUnreachable:
                failed += 1
                assert cursor.position == before
    assert failed == 2
    assert data_of(rows[0]) == written[0]
    assert data_of(rows[1]) == written[1]


# --- iterators -----------------------------------------------------------------------------


@pytest.mark.case("R-04")
def test_an_expired_iterator_is_opened_again_after_the_last_record(world: World) -> None:
    stream = world.stream("orders")
    written = world.put("orders", 6)
    [shard] = stream.list_shards()
    cursor = ShardCursor(stream, shard.id, TRIM_HORIZON)
    rows = []
    for _ in range(3):
        rows += rows_of(cursor, 2, page=2)
        world.clock.advance(301)
    assert data_of(rows) == written
    assert cursor.read(10).records.num_rows == 0


@pytest.mark.case("R-04")
@pytest.mark.req("O-22")
def test_latest_that_read_nothing_loses_nothing_when_its_iterator_expires(world: World) -> None:
    stream = world.stream("orders")
    world.put("orders", 2)
    world.clock.advance(60)
    [shard] = stream.list_shards()
    cursor = ShardCursor(stream, shard.id, LATEST)
    assert cursor.read(10).records.num_rows == 0
    written = world.put("orders", 3)
    world.clock.advance(301)
    assert data_of(rows_of(cursor, 3)) == written


@pytest.mark.case("R-04")
@pytest.mark.req("O-22")
def test_latest_of_a_table_that_read_nothing_loses_nothing_when_its_iterator_expires(
    world: World,
) -> None:
    stream = world.table("users")
    world.change("users", 2)
    world.clock.advance(600)
    [shard] = stream.list_shards()
    cursor = ShardCursor(stream, shard.id, LATEST)
    assert cursor.read(10).records.num_rows == 0
    written = world.change("users", 3, start=10)
    world.clock.advance(901)
    assert ids_of(rows_of(cursor, 3)) == written


@pytest.mark.case("R-04")
def test_a_time_is_still_looked_for_when_the_iterator_expires_on_the_way(world: World) -> None:
    stream = world.table("users")
    written = world.change("users", 6)
    [shard] = stream.list_shards()
    all_rows = rows_of(ShardCursor(stream, shard.id, TRIM_HORIZON), 6)
    fourth: Position = AtTime(all_rows[3]["approximateCreationDateTime"])
    cursor = ShardCursor(stream, shard.id, fourth)
    assert cursor.read(2).records.num_rows == 0
    assert cursor.position == fourth
    world.clock.advance(901)
    assert ids_of(rows_of(cursor, 3, page=2)) == written[3:]
    assert cursor.position == After(SequenceNumber(all_rows[5]["sequenceNumber"]))


@pytest.mark.req("C-17")
def test_once_the_time_is_found_no_record_is_dropped_for_its_stamp(world: World) -> None:
    stream = world.table("users")
    stamps = [START + timedelta(hours=hours) for hours in (1, 3, 2, 4)]
    for number, stamp in enumerate(stamps):
        item = {"id": {"S": f"{number}"}}
        world.local.tables.put_change("users", item, new=item, at=stamp)
    [shard] = stream.list_shards()
    cursor = ShardCursor(stream, shard.id, AtTime(stamps[1]))
    assert ids_of(rows_of(cursor, 3)) == ["1", "2", "3"]


def test_a_time_between_two_milliseconds_is_after_the_first(world: World) -> None:
    stream = world.stream("orders")
    written = world.put("orders", 3)
    [shard] = stream.list_shards()
    [first, second, _] = rows_of(ShardCursor(stream, shard.id, TRIM_HORIZON), 3)
    times = [row["approximateArrivalTimestamp"] for row in (first, second)]
    assert times[1] - times[0] == timedelta(milliseconds=1)
    for time in (times[0] + timedelta(microseconds=1), times[1]):
        assert data_of(rows_of(ShardCursor(stream, shard.id, AtTime(time)), 2)) == written[1:]


@pytest.mark.case("R-05", "R-09")
@pytest.mark.parametrize("missing", [True, False], ids=["missing", "null"])
def test_a_closed_shard_ends_whichever_way_the_service_says_so(world: World, missing: bool) -> None:
    stream = world.stream("orders")
    written = world.put("orders", 3)
    [shard] = stream.list_shards()
    world.producer.split_shard(
        StreamName="orders", ShardToSplit=shard.id, NewStartingHashKey=str(2**127)
    )
    if missing:
        world.faults.add("missing-next-iterator", times=None)
    assert data_of(rows_to_end(stream, shard.id, TRIM_HORIZON)) == written


@pytest.mark.case("L-15")
def test_a_listing_whose_second_page_fails_is_an_error_not_half_a_listing(world: World) -> None:
    world.stream("orders", shards=5)
    client = make_client("kinesis", world.access)
    address = parse_address("kinesis://orders")
    stream = KinesisStream(client, address, Patience(total_seconds=0), shards_per_page=2)
    assert len(stream.list_shards()) == 5

    def fail_the_second(params: dict[str, Any], **_: Any) -> None:
        if "NextToken" in params:
            world.faults.add("internal-failure", "ListShards")

    client.meta.events.register("provide-client-params.kinesis.ListShards", fail_the_second)
    with pytest.raises(ServiceUnreachable):
        stream.list_shards()


# --- what is no longer kept ----------------------------------------------------------------


@pytest.mark.case("X-21")
def test_a_horizon_that_moves_while_it_is_read_is_asked_for_again(world: World) -> None:
    stream = world.table("users")
    world.change("users", 1)
    world.clock.advance(24 * 3600 - 300)
    kept = world.change("users", 2, start=10)
    [shard] = stream.list_shards()
    trimmed: list[str] = []
    stream._calls._client.meta.events.register(
        "after-call.dynamodb-streams.GetRecords",
        lambda parsed, **_: trimmed.append(parsed.get("Error", {}).get("Code", "")),
    )
    iterator = stream.open(shard.id, TRIM_HORIZON)
    world.clock.advance(300)  # the record at the iterator expires
    page = stream.read(iterator, 10)
    assert ids_of(page.records.to_pylist()) == kept
    assert trimmed[0] == "TrimmedDataAccessException"  # or nothing was shown


def test_a_trimmed_position_of_a_table_is_said(world: World) -> None:
    stream = world.table("users")
    world.change("users", 2)
    [shard] = stream.list_shards()
    [first, *_] = rows_of(ShardCursor(stream, shard.id, TRIM_HORIZON), 2)
    world.clock.advance(25 * 3600)
    position: Position = After(SequenceNumber(first["sequenceNumber"]))
    with pytest.raises(PositionTrimmed, match="TrimmedDataAccessException"):
        ShardCursor(stream, shard.id, position).read(10)


def test_a_shard_that_expired_is_not_there_any_more(world: World) -> None:
    stream = world.stream("orders")
    [shard] = stream.list_shards()
    world.producer.split_shard(
        StreamName="orders", ShardToSplit=shard.id, NewStartingHashKey=str(2**127)
    )
    assert stream.has_shard(shard.id)
    world.clock.advance(49 * 3600)
    assert not stream.has_shard(shard.id)
    with pytest.raises(ShardNotFound, match=shard.id):
        stream.open(shard.id, TRIM_HORIZON)


@pytest.mark.case("X-06")
def test_a_stream_that_was_switched_off_and_on_names_the_one_that_replaced_it(
    world: World,
) -> None:
    stream = world.table("users")
    first = stream.describe()
    assert first.newer_arn is None
    world.change("users", 2)
    world.local.tables.disable_stream("users")
    assert stream.describe().newer_arn is None
    world.clock.advance(1)
    world.local.tables.create_table("users", view_type="NEW_IMAGE")
    written = world.change("users", 3, start=10)
    later = stream.describe()
    assert later.arn == first.arn
    assert later.newer_arn not in (None, first.arn)
    client = make_client("dynamodbstreams", world.access)
    newer = DynamoDBStream(client, parse_address(f"dynamodb://{later.newer_arn}"))
    assert newer.describe().newer_arn is None
    [shard] = newer.list_shards()
    assert ids_of(rows_of(ShardCursor(newer, shard.id, TRIM_HORIZON), 3)) == written


@pytest.mark.case("Y-07")
def test_the_children_of_a_shard_are_listed_without_the_others(world: World) -> None:
    stream = world.stream("orders", shards=3)
    parent, other, _ = stream.list_shards()
    assert stream.list_children(parent.id) == ()
    assert parent.hash_range is not None
    middle = (parent.hash_range.start + parent.hash_range.end) // 2
    world.producer.split_shard(
        StreamName="orders", ShardToSplit=parent.id, NewStartingHashKey=str(middle)
    )
    children = stream.list_children(parent.id)
    assert {child.parents for child in children} == {(parent.id,)}
    assert len(children) == 2
    assert stream.list_children(other.id) == ()


@pytest.mark.case("Y-07")
def test_the_children_of_a_table_s_shard_are_listed_without_the_others(world: World) -> None:
    stream = world.table("users")
    [parent] = stream.list_shards()
    assert stream.list_children(parent.id) == ()
    world.local.tables.split("users", parent.id)
    asked: list[dict[str, Any]] = []
    stream._calls._client.meta.events.register(
        "provide-client-params.dynamodb-streams.DescribeStream",
        lambda params, **_: asked.append(dict(params)),
    )
    children = stream.list_children(parent.id)
    assert children
    assert {child.parents for child in children} == {(parent.id,)}
    if stream._filters_children:  # an old botocore does not know the filter
        assert [request["ShardFilter"]["ShardId"] for request in asked] == [parent.id]


@pytest.mark.case("Y-06")
def test_many_parents_that_expired_cost_one_call_each_and_one_description(world: World) -> None:
    stream = world.stream("orders", shards=40)
    parents = [shard.id for shard in stream.list_shards()]
    world.producer.update_shard_count(
        StreamName="orders", TargetShardCount=80, ScalingType="UNIFORM_SCALING"
    )
    world.clock.advance(49 * 3600)
    children = [shard.id for shard in stream.list_shards()]
    assert not set(parents) & set(children)
    calls: Counter[str] = Counter()
    stream._calls._client.meta.events.register(
        "before-call.kinesis", lambda model, **_: calls.update([model.name])
    )
    assert gone_shards(stream, [*parents, children[0]]) == set(parents)
    assert calls["GetShardIterator"] == 41
    assert calls["DescribeStreamSummary"] < 10  # at most one each 2 s, and one of each thread
