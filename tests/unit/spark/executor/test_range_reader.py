"""One planned range: exactly its records, or an error that says what is missing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.core.offsets import Range
from shardline.core.positions import SHARD_END, After
from shardline.core.shards import SequenceNumber
from shardline.errors import GapError
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.steps import run
from shardline.spark.executor.range_reader import RangeReader, ShardRange
from shardline.spark.executor.read_ahead import ReadAhead
from tests.twins.dynamodb_streams import DynamoDBTwin
from tests.twins.kinesis import EPOCH, KinesisTwin

if TYPE_CHECKING:
    from shardline.services.port import Page
    from tests.twins.kinesis import Written


SECOND = timedelta(seconds=1)


def stream(records: int = 10) -> tuple[KinesisTwin, list[Written]]:
    twin = KinesisTwin(1)
    return twin, [twin.put("key", str(number).encode()) for number in range(records)]


def read(twin: KinesisTwin, item: ShardRange, cache: ReadAhead | None = None) -> list[int]:
    """Return the data of a range's records, read in virtual time."""
    found: list[int] = []

    def emit(shard_id: str, page: object) -> None:
        assert shard_id == item.shard_id
        found.extend(int(data) for data in page.column("data").to_pylist())  # type: ignore[attr-defined]

    def now() -> float:
        return twin.clock.now_ms() / 1000

    reader = RangeReader(twin, item, emit, cache=cache, clock=now)
    run(reader.read_steps(), sleep=lambda seconds: twin.clock.advance(max(0.001, seconds)))
    return found


def ranged(puts: list[Written], first: int, last: int, **known: object) -> ShardRange:
    """Return the range from one record to another, both included."""
    upto = After(puts[last].sequence)
    planned = Range(After(puts[first].sequence, -1), upto)
    return ShardRange(puts[0].shard_id, planned, **known)  # type: ignore[arg-type]


def test_a_range_holds_its_first_and_its_last_record_and_nothing_beyond() -> None:
    twin, puts = stream()
    assert read(twin, ranged(puts, 2, 6)) == [2, 3, 4, 5, 6]


def test_a_range_after_a_record_begins_with_the_next_one() -> None:
    twin, puts = stream()
    planned = Range(After(puts[2].sequence), After(puts[4].sequence))
    assert read(twin, ShardRange(puts[0].shard_id, planned)) == [3, 4]


def test_a_range_to_the_end_of_a_closed_shard_holds_all_the_rest() -> None:
    twin, puts = stream()
    twin.split(puts[0].shard_id)
    planned = Range(After(puts[7].sequence), SHARD_END)
    assert read(twin, ShardRange(puts[0].shard_id, planned)) == [8, 9]


@pytest.mark.case("X-02")
def test_a_range_whose_first_records_expired_is_an_error_and_not_a_shorter_range() -> None:
    twin, puts = stream(3)
    twin.clock.advance(25 * 3600)
    puts += [twin.put("key", b"3"), twin.put("key", b"4")]
    with pytest.raises(GapError, match=puts[0].shard_id):
        read(twin, ranged(puts, 1, 4))
    assert read(twin, ranged(puts, 1, 4, has_gap=True)) == [3, 4], "the driver knows of the gap"


@pytest.mark.case("X-02")
def test_near_the_horizon_the_record_before_the_range_must_still_be_there() -> None:
    twin, puts = stream(3)
    twin.clock.advance(25 * 3600)
    puts += [twin.put("key", b"3"), twin.put("key", b"4")]
    planned = Range(After(puts[0].sequence), After(puts[4].sequence))
    kept_until = twin.clock.now() - timedelta(hours=1)
    with pytest.raises(GapError):
        read(twin, ShardRange(puts[0].shard_id, planned, kept_until=kept_until))


def test_an_end_that_never_comes_is_an_error_that_names_it() -> None:
    twin, puts = stream(3)
    missing = After(SequenceNumber(str(int(puts[2].sequence) + 1)))
    item = ShardRange(puts[0].shard_id, Range(After(puts[0].sequence, -1), missing))
    with pytest.raises(GapError, match="nothing at it or after it"):
        read(twin, item)
    twin.put("key", b"3")
    with pytest.raises(GapError, match="newer records came instead"):
        read(twin, item)


@pytest.mark.case("Y-01")
@pytest.mark.parametrize(("is_last", "asked"), [(False, [1_050, 1_050]), (True, [10_000, 10_000])])
def test_whole_pages_are_asked_for_only_where_little_lies_after_the_range(
    is_last: bool, asked: list[int]
) -> None:
    twin, puts = stream(40)
    limits: list[int] = []

    def read_less(iterator: str, max_records: int) -> Page:
        limits.append(max_records)
        return KinesisTwin.read(twin, iterator, 30)

    twin.clock.advance(60)
    twin.read = read_less  # type: ignore[method-assign]
    planned = Range(After(puts[0].sequence, -1), After(puts[-1].sequence), EPOCH + SECOND)
    item = ShardRange(puts[0].shard_id, planned, begins_at=EPOCH, is_last=is_last)
    assert len(read(twin, item)) == 40
    assert [limit // 50 * 50 for limit in limits] == asked


def test_what_was_read_beyond_a_range_is_not_read_again_by_the_next_one() -> None:
    twin, puts = stream()
    cache = ReadAhead()
    assert read(twin, ranged(puts, 0, 4), cache) == [0, 1, 2, 3, 4]
    twin.read = None  # type: ignore[method-assign, assignment] # a read would fail
    planned = Range(After(puts[4].sequence), After(puts[8].sequence))
    assert read(twin, ShardRange(puts[0].shard_id, planned), cache) == [5, 6, 7, 8]


@pytest.mark.case("X-05")
@pytest.mark.parametrize("expired", [True, False])
def test_a_range_of_a_quiet_table_ends_where_the_service_says_that_its_end_expired(
    expired: bool,
) -> None:
    tables = Tables(Clock(EPOCH))
    tables.create_table("users", shards=1)
    keys = {"id": {"S": "a"}}
    first, last = (tables.put_change("users", keys, new=keys) for _ in range(2))
    upto = After(SequenceNumber(str(last.sequence_number)))
    planned = Range(After(SequenceNumber(str(first.sequence_number))), upto)
    if expired:
        tables.clock.advance(30 * 3600)
    given_up_at = tables.clock.now() + timedelta(hours=1)
    found: list[str] = []

    def sleep(seconds: float) -> None:
        tables.clock.advance(max(0.001, seconds))
        assert tables.clock.now() < given_up_at, "it is read without end"

    reader = RangeReader(
        DynamoDBTwin(tables, "users"),
        ShardRange(first.shard, planned, has_gap=True),
        lambda _, page: found.extend(page.column("sequenceNumber").to_pylist()),
        clock=lambda: tables.clock.now_ms() / 1000,
    )
    run(reader.read_steps(), sleep=sleep)
    assert [int(number) for number in found] == ([] if expired else [int(last.sequence_number)])
