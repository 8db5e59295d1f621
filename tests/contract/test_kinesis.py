"""What every server of Kinesis must show through the port."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import HASH_SPACE_END, SequenceNumber, Shard, hash_key_of
from shardline.errors import InvalidPosition, ShardNotFound, StreamNotFound
from shardline.services.cursor import ShardCursor
from shardline.services.wire.columns import KINESIS_COLUMNS
from tests.contract.kinesis_servers import SERVERS, KinesisUnderTest
from tests.contract.reading import rows_from, rows_of, rows_to_end, wait_until

NewStream = Callable[..., KinesisUnderTest]

pytestmark = pytest.mark.parametrize("server", SERVERS)


def closed_shard(stream: KinesisUnderTest, shard_id: str) -> Shard:
    """Return a closed shard as soon as a listing shows it closed."""
    found: list[Shard] = []

    def is_closed() -> bool:
        found[:] = [shards_of(stream)[shard_id]]
        return found[0].closed

    wait_until(is_closed, f"{shard_id} is listed as closed")
    return found[0]


def shards_of(stream: KinesisUnderTest) -> dict[str, Shard]:
    return {shard.id: shard for shard in stream.service.list_shards()}


def only_shard(stream: KinesisUnderTest) -> str:
    [shard] = stream.service.list_shards()
    return shard.id


def children_of(stream: KinesisUnderTest, parent: str) -> list[Shard]:
    found: list[Shard] = []

    def is_listed() -> bool:  # a listing may be stale, and the next one too
        found[:] = [shard for shard in stream.service.list_shards() if parent in shard.parents]
        return bool(found)

    wait_until(is_listed, f"children of {parent}")
    return sorted(found, key=lambda shard: shard.hash_range.start if shard.hash_range else 0)


def put_numbered(stream: KinesisUnderTest, count: int, key: str = "k") -> list[bytes]:
    written = [f"{key}-{n}".encode() for n in range(count)]
    for data in written:
        stream.put(key, data)
    return written


# --- records -------------------------------------------------------------------------------


@pytest.mark.req("K-04")
def test_a_shard_is_read_in_the_order_it_was_written(kinesis: NewStream) -> None:
    stream = kinesis()
    numbers = [stream.put("k", f"{n}".encode()) for n in range(25)]
    rows = rows_from(stream.service, only_shard(stream), TRIM_HORIZON, 25, page=7)
    assert [row["data"] for row in rows] == [f"{n}".encode() for n in range(25)]
    assert [SequenceNumber(row["sequenceNumber"]) for row in rows] == numbers
    assert numbers == sorted(set(numbers))


@pytest.mark.req("K-03")
def test_a_key_goes_to_the_shard_of_its_hash(kinesis: NewStream) -> None:
    stream = kinesis(shards=3)
    keys = [f"key-{n}" for n in range(12)]
    for key in keys:
        stream.put(key, b"x")
    for shard in stream.service.list_shards():
        assert shard.hash_range is not None
        expected = [key for key in keys if hash_key_of(key) in shard.hash_range]
        rows = rows_from(stream.service, shard.id, TRIM_HORIZON, len(expected))
        assert [row["partitionKey"] for row in rows] == expected


@pytest.mark.req("K-03")
def test_an_explicit_hash_key_overrules_the_partition_key(kinesis: NewStream) -> None:
    stream = kinesis(shards=2)
    stream.put("a", b"low", hash_key=0)
    stream.put("a", b"high", hash_key=HASH_SPACE_END)
    ranges = {shard.id: shard.hash_range for shard in stream.service.list_shards()}
    for shard_id, keys in ranges.items():
        assert keys is not None
        expected = b"low" if 0 in keys else b"high"
        assert [r["data"] for r in rows_from(stream.service, shard_id, TRIM_HORIZON, 1)] == [
            expected
        ]


def test_pages_have_the_columns_and_never_more_rows_than_asked(kinesis: NewStream) -> None:
    stream = kinesis()
    put_numbered(stream, 5)
    page = ShardCursor(stream.service, only_shard(stream), TRIM_HORIZON).read(3)
    assert page.records.schema == KINESIS_COLUMNS
    assert page.records.num_rows <= 3


@pytest.mark.parametrize("key", ["käse-日本-🦀", 'quo"te\\slash', "x" * 256, "tab\tline\n"])
def test_any_partition_key_comes_back_as_it_was(kinesis: NewStream, key: str) -> None:
    stream = kinesis()
    stream.put(key, b"x")
    [row] = rows_from(stream.service, only_shard(stream), TRIM_HORIZON, 1)
    assert row["partitionKey"] == key


def test_any_bytes_come_back_as_they_were(kinesis: NewStream) -> None:
    stream = kinesis()
    payloads = [bytes(range(256)), b"\x00", b"a", b"ab", b"abc", "ü".encode() * 100]
    for payload in payloads:
        stream.put("k", payload)
    rows = rows_from(stream.service, only_shard(stream), TRIM_HORIZON, len(payloads))
    assert [row["data"] for row in rows] == payloads


@pytest.mark.req("K-01")
def test_records_of_nearly_a_megabyte_come_through(kinesis: NewStream) -> None:
    stream = kinesis()
    payloads = [bytes([n]) * (1024 * 1024 - 10) for n in range(3)]
    for payload in payloads:
        stream.put("k", payload)
    rows = rows_from(stream.service, only_shard(stream), TRIM_HORIZON, 3)
    assert [row["data"] for row in rows] == payloads


def test_arrival_times_are_the_services_and_aware(kinesis: NewStream) -> None:
    stream = kinesis()
    stream.put("k", b"x")
    cursor = ShardCursor(stream.service, only_shard(stream), TRIM_HORIZON)
    pages = [cursor.read(10)]

    def found() -> bool:
        pages.append(cursor.read(10))
        return bool(pages[-2].records.num_rows)

    wait_until(found, "one record")
    [arrived] = pages[-2].records.column("approximateArrivalTimestamp").to_pylist()
    assert abs(pages[-2].service_time - arrived) < timedelta(minutes=1)


def test_the_tip_is_where_nothing_is_behind(kinesis: NewStream) -> None:
    stream = kinesis()
    put_numbered(stream, 3)
    cursor = ShardCursor(stream.service, only_shard(stream), TRIM_HORIZON)
    rows_of(cursor, 3)
    wait_until(lambda: cursor.read(10).behind_ms == 0, "the tip")


# --- positions -----------------------------------------------------------------------------


def test_after_a_record_comes_the_next(kinesis: NewStream) -> None:
    stream = kinesis()
    numbers = [stream.put("k", f"{n}".encode()) for n in range(4)]
    rows = rows_from(stream.service, only_shard(stream), After(numbers[1]), 2)
    assert [row["data"] for row in rows] == [b"2", b"3"]


def test_after_a_user_record_its_aggregate_comes_again(kinesis: NewStream) -> None:
    stream = kinesis()
    numbers = [stream.put("k", f"{n}".encode()) for n in range(4)]
    rows = rows_from(stream.service, only_shard(stream), After(numbers[1], 0), 3)
    assert [row["data"] for row in rows] == [b"1", b"2", b"3"]


def test_after_the_newest_record_comes_nothing_until_it_is_written(kinesis: NewStream) -> None:
    stream = kinesis()
    number = stream.put("k", b"old")
    cursor = ShardCursor(stream.service, only_shard(stream), After(number))
    assert cursor.read(10).records.num_rows == 0
    stream.put("k", b"new")
    assert [row["data"] for row in rows_of(cursor, 1)] == [b"new"]


def test_latest_is_behind_everything_at_the_first_read(kinesis: NewStream) -> None:
    stream = kinesis()
    stream.put("k", b"old")
    cursor = ShardCursor(stream.service, only_shard(stream), LATEST)
    assert cursor.read(10).records.num_rows == 0
    stream.put("k", b"new")
    assert [row["data"] for row in rows_of(cursor, 1)] == [b"new"]


@pytest.mark.req("O-22")
def test_latest_that_has_read_nothing_is_pinned(kinesis: NewStream) -> None:
    stream = kinesis()
    cursor = ShardCursor(stream.service, only_shard(stream), LATEST)
    cursor.read(10)
    stream.put("k", b"new")
    other = ShardCursor(stream.service, cursor.shard_id, cursor.position)
    assert rows_of(cursor, 1)[-1]["data"] == b"new"
    assert rows_of(other, 1)[-1]["data"] == b"new"


def test_a_time_is_before_the_first_record_that_arrived_then_or_later(kinesis: NewStream) -> None:
    stream = kinesis()
    shard_id = only_shard(stream)
    rows: list[dict[str, Any]] = []

    def three_times() -> bool:
        stream.put("k", f"{len(rows)}".encode())
        rows[:] = rows_from(stream.service, shard_id, TRIM_HORIZON, len(rows) + 1)
        return len({row["approximateArrivalTimestamp"] for row in rows}) >= 3

    wait_until(three_times, "records of three different milliseconds")
    times = sorted({row["approximateArrivalTimestamp"] for row in rows})
    for time in [*times, times[1] - timedelta(microseconds=1)]:
        expected = [row for row in rows if row["approximateArrivalTimestamp"] >= time]
        assert rows_from(stream.service, shard_id, AtTime(time), len(expected)) == expected


@pytest.mark.case("R-04")
def test_a_cursor_that_opens_again_at_every_page_loses_and_repeats_nothing(
    kinesis: NewStream,
) -> None:
    stream = kinesis()
    written = put_numbered(stream, 10)
    cursor = ShardCursor(stream.service, only_shard(stream), TRIM_HORIZON)
    rows = []
    for _ in range(10):
        rows += rows_of(cursor, 1, page=1)
        cursor = ShardCursor(stream.service, cursor.shard_id, cursor.position)
    assert [row["data"] for row in rows] == written


def test_the_end_of_a_shard_is_not_a_place_to_open(kinesis: NewStream) -> None:
    stream = kinesis()
    with pytest.raises(InvalidPosition, match="end"):
        stream.service.open(only_shard(stream), SHARD_END)


# --- resharding ----------------------------------------------------------------------------


@pytest.mark.req("O-04")
def test_a_split_opens_two_children_in_the_place_of_their_parent(kinesis: NewStream) -> None:
    stream = kinesis()
    parent = only_shard(stream)
    before = stream.put("k", b"before")
    stream.split(parent)
    after = stream.put("k", b"after")
    left, right = children_of(stream, parent)
    old = closed_shard(stream, parent)
    assert not left.closed
    assert not right.closed
    assert left.parents == right.parents == (parent,)
    assert old.hash_range is not None
    assert left.hash_range is not None
    assert right.hash_range is not None
    assert left.hash_range.end + 1 == right.hash_range.start
    assert (left.hash_range.start, right.hash_range.end) == (
        old.hash_range.start,
        old.hash_range.end,
    )
    assert before < after
    for child in (left, right):
        assert child.first is not None
        assert before < child.first <= after


@pytest.mark.req("O-05")
def test_a_merge_opens_one_child_of_both_parents(kinesis: NewStream) -> None:
    stream = kinesis(shards=2)
    left, right = sorted(
        stream.service.list_shards(),
        key=lambda shard: shard.hash_range.start,  # type: ignore[union-attr]
    )
    numbers = [stream.put("k", b"x", hash_key=key) for key in (0, HASH_SPACE_END)]
    stream.merge(left.id, right.id)
    later = stream.put("k", b"y")
    [child] = children_of(stream, left.id)
    assert set(child.parents) == {left.id, right.id}
    assert len(child.parents) == 2
    assert child.hash_range is not None
    assert (child.hash_range.start, child.hash_range.end) == (0, HASH_SPACE_END)
    for parent in (left, right):
        closed_shard(stream, parent.id)
    assert later > max(numbers)


@pytest.mark.req("O-10")
@pytest.mark.case("L-19")
def test_a_closed_shard_still_has_its_records_and_then_ends(kinesis: NewStream) -> None:
    stream = kinesis()
    parent = only_shard(stream)
    written = put_numbered(stream, 7)
    stream.split(parent)
    stream.put("k", b"in a child")
    rows = rows_to_end(stream.service, parent, TRIM_HORIZON, page=3)
    assert [row["data"] for row in rows] == written


@pytest.mark.case("L-07")
def test_an_empty_closed_shard_ends(kinesis: NewStream) -> None:
    stream = kinesis()
    parent = only_shard(stream)
    stream.split(parent)
    assert rows_to_end(stream.service, parent, TRIM_HORIZON) == []
    assert rows_to_end(stream.service, parent, LATEST) == []


@pytest.mark.req("O-10")
def test_after_its_last_record_a_closed_shard_ends(kinesis: NewStream) -> None:
    stream = kinesis()
    parent = only_shard(stream)
    number = stream.put("k", b"last")
    stream.split(parent)
    assert rows_to_end(stream.service, parent, After(number)) == []


@pytest.mark.req("O-10")
def test_the_ending_number_is_a_bound_that_nothing_may_rely_on(kinesis: NewStream) -> None:
    stream = kinesis()
    parent = only_shard(stream)
    number = stream.put("k", b"last")
    stream.split(parent)
    last = closed_shard(stream, parent).last
    assert last is not None
    assert last >= number
    try:
        rows = rows_to_end(stream.service, parent, After(last))
    except InvalidPosition:
        return  # a service may refuse it
    assert rows == []


@pytest.mark.case("R-09")
def test_the_end_is_sticky(kinesis: NewStream) -> None:
    stream = kinesis()
    parent = only_shard(stream)
    stream.split(parent)
    cursor = ShardCursor(stream.service, parent, TRIM_HORIZON)
    rows_of(cursor, 1)
    for _ in range(2):
        assert cursor.ended
        assert cursor.position == SHARD_END
        with pytest.raises(InvalidPosition, match="end"):
            cursor.read(10)


def test_the_last_page_of_a_closed_shard_names_its_children(kinesis: NewStream) -> None:
    stream = kinesis()
    parent = only_shard(stream)
    stream.split(parent)
    cursor = ShardCursor(stream.service, parent, TRIM_HORIZON)
    pages = []

    def ended() -> bool:
        pages.append(cursor.read(10))
        return cursor.ended

    wait_until(ended, "the end")
    children = {(child.id, child.parents, child.hash_range) for child in pages[-1].children}
    assert children == {
        (child.id, child.parents, child.hash_range) for child in children_of(stream, parent)
    }


# --- the stream as a whole -----------------------------------------------------------------


@pytest.mark.req("K-18")
@pytest.mark.case("L-15")
def test_a_listing_has_every_page(kinesis: NewStream) -> None:
    stream = kinesis(shards=5)
    shards = stream.listed_in_pages_of(2).list_shards()
    assert len(shards) == 5
    assert [shard.id for shard in shards] == [shard.id for shard in stream.service.list_shards()]
    assert not any(shard.closed for shard in shards)


def test_a_stream_describes_itself(kinesis: NewStream) -> None:
    stream = kinesis()
    described = stream.service.describe()
    assert described.active
    assert described.retention_seconds == 24 * 3600
    assert described.created_at.tzinfo is not None
    assert described.arn.startswith("arn:aws:kinesis:")
    assert described.arn.endswith(f":stream/{described.name}")


@pytest.mark.req("K-21")
def test_a_shard_can_be_asked_for(kinesis: NewStream) -> None:
    stream = kinesis()
    assert stream.service.has_shard(only_shard(stream))
    assert not stream.service.has_shard("shardId-000000000077")


def test_what_is_not_there_is_said_by_name(kinesis: NewStream) -> None:
    stream = kinesis()
    with pytest.raises(ShardNotFound, match="shardId-000000000077"):
        stream.service.open("shardId-000000000077", TRIM_HORIZON)
    missing = stream.of_another_name()
    for ask in (missing.describe, missing.list_shards):
        with pytest.raises(StreamNotFound):
            ask()
    with pytest.raises(StreamNotFound):
        missing.open("shardId-000000000000", TRIM_HORIZON)


def test_an_iterator_that_never_was_is_refused(kinesis: NewStream) -> None:
    stream = kinesis()
    with pytest.raises(InvalidPosition):
        stream.service.read("nonsense", 10)


def test_a_number_that_is_not_of_this_stream_is_refused(kinesis: NewStream) -> None:
    stream = kinesis()
    with pytest.raises(InvalidPosition):
        stream.service.open(only_shard(stream), After(SequenceNumber("12")))
