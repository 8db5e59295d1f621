"""The parts of Kinesis that surprise its consumers, in the embedded service too."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.kinesis_calls import START, client_of, iterator, listed, put, read, shard

if TYPE_CHECKING:
    from shardline.local import Service

STREAM = {"StreamName": "orders"}
DAY_SECONDS = 24 * 3600


@pytest.fixture
def kinesis(service: Service) -> Any:
    kinesis = client_of(service)
    kinesis.create_stream(**STREAM, ShardCount=1)
    return kinesis


def split(kinesis: Any, index: int = 0, new_start: int = 1000) -> None:
    kinesis.split_shard(**STREAM, ShardToSplit=shard(index), NewStartingHashKey=str(new_start))


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_the_ending_number_is_a_bound_and_no_records(kinesis: Any, kind: str) -> None:
    numbers = put(kinesis, STREAM, b"1", b"2")
    split(kinesis)
    parent = kinesis.list_shards(**STREAM)["Shards"][0]
    ending = parent["SequenceNumberRange"]["EndingSequenceNumber"]
    assert int(ending) > max(int(number) for number in numbers)
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        iterator(kinesis, STREAM, 0, kind, StartingSequenceNumber=ending)
    starting = parent["SequenceNumberRange"]["StartingSequenceNumber"]
    assert int(starting) < min(int(number) for number in numbers)
    opened = iterator(kinesis, STREAM, 0, kind, StartingSequenceNumber=starting)
    assert read(kinesis, opened)[0] == [b"1", b"2"]


def test_another_shards_number_is_refused(kinesis: Any) -> None:
    split(kinesis)
    (number,) = put(kinesis, STREAM, b"1", hash_key=0)
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        iterator(kinesis, STREAM, 2, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number)


def test_after_the_last_record_of_a_closed_shard_comes_its_end(kinesis: Any) -> None:
    (number,) = put(kinesis, STREAM, b"1")
    split(kinesis)
    opened = iterator(kinesis, STREAM, 0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number)
    data, page = read(kinesis, opened)
    assert data == []
    assert "NextShardIterator" not in page
    assert [each["ShardId"] for each in page["ChildShards"]] == [shard(1), shard(2)]


def test_latest_on_a_closed_shard_is_its_end(kinesis: Any) -> None:
    put(kinesis, STREAM, b"1")
    split(kinesis)
    data, page = read(kinesis, iterator(kinesis, STREAM, 0, "LATEST"))
    assert data == []
    assert "NextShardIterator" not in page


def test_an_iterator_from_before_the_split_reads_the_parent_to_its_end(kinesis: Any) -> None:
    opened = iterator(kinesis, STREAM, 0, "LATEST")
    put(kinesis, STREAM, b"1")
    split(kinesis)
    data, page = read(kinesis, opened)
    assert data == [b"1"]
    assert "NextShardIterator" not in page


def test_an_empty_page_may_have_more_behind_it(kinesis: Any, service: Service) -> None:
    service.settings.empty_page_every = 2
    put(kinesis, STREAM, b"1", b"2", b"3")
    split(kinesis)
    opened: str | None = iterator(kinesis, STREAM, 0, "TRIM_HORIZON")
    pages = []
    while opened is not None:
        data, page = read(kinesis, opened, Limit=1)
        pages.append((data, page["MillisBehindLatest"] > 0))
        opened = page.get("NextShardIterator")
    assert pages == [([b"1"], True), ([], True), ([b"2"], True), ([], True), ([b"3"], False)]


def test_an_iterator_lives_for_five_minutes(kinesis: Any, service: Service) -> None:
    put(kinesis, STREAM, b"1")
    opened = iterator(kinesis, STREAM, 0, "TRIM_HORIZON")
    service.clock.advance(300)
    data, page = read(kinesis, opened)
    assert data == [b"1"]
    service.clock.advance(1)
    with pytest.raises(kinesis.exceptions.ExpiredIteratorException):
        read(kinesis, opened)
    service.clock.advance(299)
    assert read(kinesis, page["NextShardIterator"])[0] == []


def test_a_time_in_the_future_is_refused(kinesis: Any) -> None:
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        iterator(kinesis, STREAM, 0, "AT_TIMESTAMP", Timestamp=START + timedelta(seconds=1))


def test_a_trimmed_position_goes_on_at_the_horizon(kinesis: Any, service: Service) -> None:
    first, second = put(kinesis, STREAM, b"1", b"2")
    service.clock.advance(DAY_SECONDS - 60)
    put(kinesis, STREAM, b"3")
    held = iterator(kinesis, STREAM, 0, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=second)
    service.clock.advance(60)
    assert read(kinesis, held)[0] == [b"3"]
    assert read(kinesis, iterator(kinesis, STREAM, 0, "TRIM_HORIZON"))[0] == [b"3"]
    again = iterator(kinesis, STREAM, 0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=first)
    assert read(kinesis, again)[0] == [b"3"]


def test_a_longer_retention_keeps_records(kinesis: Any, service: Service) -> None:
    kinesis.increase_stream_retention_period(**STREAM, RetentionPeriodHours=48)
    put(kinesis, STREAM, b"1")
    service.clock.advance(2 * DAY_SECONDS - 1)
    assert read(kinesis, iterator(kinesis, STREAM, 0, "TRIM_HORIZON"))[0] == [b"1"]
    kinesis.decrease_stream_retention_period(**STREAM, RetentionPeriodHours=24)
    assert read(kinesis, iterator(kinesis, STREAM, 0, "TRIM_HORIZON"))[0] == []


def test_what_is_gone_does_not_come_back_with_a_longer_retention(
    kinesis: Any, service: Service
) -> None:
    kinesis.increase_stream_retention_period(**STREAM, RetentionPeriodHours=48)
    put(kinesis, STREAM, b"1")
    split(kinesis)
    service.clock.advance(DAY_SECONDS + 1)
    assert shard(0) in listed(kinesis, **STREAM)
    kinesis.decrease_stream_retention_period(**STREAM, RetentionPeriodHours=24)
    assert shard(0) not in listed(kinesis, **STREAM)
    kinesis.increase_stream_retention_period(**STREAM, RetentionPeriodHours=48)
    assert shard(0) not in listed(kinesis, **STREAM)


def test_a_closed_shard_expires_and_its_child_still_names_it(
    kinesis: Any, service: Service
) -> None:
    split(kinesis)
    service.clock.advance(200)
    opened = iterator(kinesis, STREAM, 0, "TRIM_HORIZON")
    service.clock.advance(DAY_SECONDS - 201)
    assert listed(kinesis, **STREAM) == [shard(0), shard(1), shard(2)]
    fresh = iterator(kinesis, STREAM, 0, "TRIM_HORIZON")
    service.clock.advance(1)
    assert listed(kinesis, **STREAM) == [shard(1), shard(2)]
    assert listed(kinesis, **STREAM, ShardFilter={"Type": "AT_TRIM_HORIZON"}) == [
        shard(1),
        shard(2),
    ]
    assert kinesis.list_shards(**STREAM)["Shards"][0]["ParentShardId"] == shard(0)
    for gone in (opened, fresh):
        with pytest.raises(
            (
                kinesis.exceptions.ResourceNotFoundException,
                kinesis.exceptions.ExpiredIteratorException,
            )
        ):
            read(kinesis, gone)
    with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
        iterator(kinesis, STREAM, 0, "TRIM_HORIZON")


def test_the_date_header_is_the_services_clock(kinesis: Any, service: Service) -> None:
    service.clock.advance(3600)
    answer = kinesis.list_streams()
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    assert headers["date"] == "Sun, 15 Nov 2026 13:00:00 GMT"
    assert answer["ResponseMetadata"]["RequestId"]
