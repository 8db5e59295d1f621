"""Plain boto3 does everything with the embedded Kinesis, by name and by ARN."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from shardline.local import Clock, Service
from tests.integration.kinesis_calls import (
    START,
    client_of,
    control,
    iterator,
    listed,
    put,
    read,
    shard,
)

HALF = 2**127


@pytest.fixture
def kinesis(service: Service) -> Any:
    return client_of(service)


@pytest.fixture(params=["by name", "by ARN"])
def stream(request: pytest.FixtureRequest, kinesis: Any) -> dict[str, str]:
    kinesis.create_stream(StreamName="orders", ShardCount=2)
    if request.param == "by name":
        return {"StreamName": "orders"}
    summary = kinesis.describe_stream_summary(StreamName="orders")
    return {"StreamARN": summary["StreamDescriptionSummary"]["StreamARN"]}


# --- streams ----------------------------------------------------------------------------------


def test_describe_says_what_was_created(kinesis: Any, stream: dict[str, str]) -> None:
    description = kinesis.describe_stream(**stream)["StreamDescription"]
    assert description["StreamStatus"] == "ACTIVE"
    assert description["StreamCreationTimestamp"] == START
    assert description["RetentionPeriodHours"] == 24
    assert [each["ShardId"] for each in description["Shards"]] == [shard(0), shard(1)]
    assert [each["HashKeyRange"] for each in description["Shards"]] == [
        {"StartingHashKey": "0", "EndingHashKey": str(HALF - 1)},
        {"StartingHashKey": str(HALF), "EndingHashKey": str(2**128 - 1)},
    ]
    summary = kinesis.describe_stream_summary(**stream)["StreamDescriptionSummary"]
    assert summary["OpenShardCount"] == 2
    assert summary["StreamModeDetails"] == {"StreamMode": "PROVISIONED"}


def test_describe_pages_through_shards(kinesis: Any) -> None:
    kinesis.create_stream(StreamName="wide", ShardCount=5)
    pages = kinesis.get_paginator("describe_stream").paginate(
        StreamName="wide", PaginationConfig={"PageSize": 2}
    )
    found = [[each["ShardId"] for each in page["StreamDescription"]["Shards"]] for page in pages]
    assert found == [[shard(0), shard(1)], [shard(2), shard(3)], [shard(4)]]


def test_streams_are_listed_in_pages(kinesis: Any) -> None:
    for name in ("b", "a", "c"):
        kinesis.create_stream(StreamName=name, ShardCount=1)
    first = kinesis.list_streams(Limit=2)
    assert (first["StreamNames"], first["HasMoreStreams"]) == (["a", "b"], True)
    rest = kinesis.list_streams(NextToken=first["NextToken"])
    assert (rest["StreamNames"], rest["HasMoreStreams"]) == (["c"], False)
    assert kinesis.list_streams(ExclusiveStartStreamName="a")["StreamNames"] == ["b", "c"]


def test_on_demand_stream_is_resharded_by_the_service_only(service: Service, kinesis: Any) -> None:
    kinesis.create_stream(StreamName="free", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    assert len(listed(kinesis, StreamName="free")) == 4
    with pytest.raises(kinesis.exceptions.ValidationException):
        kinesis.update_shard_count(
            StreamName="free", TargetShardCount=8, ScalingType="UNIFORM_SCALING"
        )
    answer = control(service, "kinesis/reshard", StreamName="free", TargetShardCount=8)
    assert answer == {"OpenShardCount": 8}
    assert len(listed(kinesis, StreamName="free", ShardFilter={"Type": "AT_LATEST"})) == 8


def test_status_changes_take_the_delay_that_was_set() -> None:
    with Service(clock=Clock(START), status_delay_seconds=10) as service:
        kinesis = client_of(service)

        def status() -> str:
            summary = kinesis.describe_stream_summary(StreamName="slow")
            text: str = summary["StreamDescriptionSummary"]["StreamStatus"]
            return text

        kinesis.create_stream(StreamName="slow", ShardCount=1)
        assert status() == "CREATING"
        with pytest.raises(kinesis.exceptions.ResourceInUseException):
            kinesis.list_shards(StreamName="slow")
        service.clock.advance(10)
        assert status() == "ACTIVE"
        request = {"ShardToSplit": shard(0), "NewStartingHashKey": str(HALF)}
        kinesis.split_shard(StreamName="slow", **request)
        assert status() == "UPDATING"
        assert listed(kinesis, StreamName="slow") == [shard(0)]
        with pytest.raises(kinesis.exceptions.ResourceInUseException):
            kinesis.split_shard(StreamName="slow", **request)
        service.clock.advance(10)
        assert status() == "ACTIVE"
        assert listed(kinesis, StreamName="slow") == [shard(0), shard(1), shard(2)]
        kinesis.delete_stream(StreamName="slow")
        assert status() == "DELETING"
        service.clock.advance(10)
        assert kinesis.list_streams()["StreamNames"] == []


def test_limits_of_the_account_are_described(kinesis: Any, stream: dict[str, str]) -> None:
    assert kinesis.describe_limits()["OpenShardCount"] == 2


def test_a_stream_made_again_under_its_name_is_another_one(kinesis: Any) -> None:
    stream = {"StreamName": "again"}
    kinesis.create_stream(**stream, ShardCount=1)
    before = kinesis.describe_stream_summary(**stream)["StreamDescriptionSummary"]
    (number,) = put(kinesis, stream, b"old")
    old = iterator(kinesis, stream, 0, "TRIM_HORIZON")
    kinesis.delete_stream(**stream)
    kinesis.create_stream(**stream, ShardCount=1)
    put(kinesis, stream, b"new", b"newer", b"newest")
    after = kinesis.describe_stream_summary(**stream)["StreamDescriptionSummary"]
    assert after["StreamCreationTimestamp"] > before["StreamCreationTimestamp"]
    with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
        kinesis.get_records(ShardIterator=old)
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        iterator(kinesis, stream, 0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number)


# --- records ----------------------------------------------------------------------------------


@pytest.mark.req("K-03")
def test_a_key_goes_to_the_shard_of_its_md5(kinesis: Any, stream: dict[str, str]) -> None:
    for key in ("a", "b", "c", "käse", "日本"):
        hash_key = int.from_bytes(hashlib.md5(key.encode()).digest())  # noqa: S324
        answer = kinesis.put_record(**stream, Data=b"x", PartitionKey=key)
        assert answer["ShardId"] == shard(hash_key // HALF), key
        answer = kinesis.put_record(
            **stream, Data=b"x", PartitionKey=key, ExplicitHashKey=str(2**128 - 1 - hash_key)
        )
        assert answer["ShardId"] == shard(1 - hash_key // HALF), key


def test_records_come_back_as_they_were_written(kinesis: Any, stream: dict[str, str]) -> None:
    answer = kinesis.put_records(
        **stream,
        Records=[
            {
                "Data": bytes([index]) * index,
                "PartitionKey": f'"k\\é{index}',
                "ExplicitHashKey": "7",
            }
            for index in range(100)
        ],
    )
    assert answer["FailedRecordCount"] == 0
    numbers = [each["SequenceNumber"] for each in answer["Records"]]
    assert all(len(number) == 56 for number in numbers)
    records = kinesis.get_records(ShardIterator=iterator(kinesis, stream, 0, "TRIM_HORIZON"))
    assert [
        (each["Data"], each["PartitionKey"], each["SequenceNumber"]) for each in records["Records"]
    ] == [(bytes([i]) * i, f'"k\\é{i}', numbers[i]) for i in range(100)]
    assert {each["ApproximateArrivalTimestamp"] for each in records["Records"]} == {START}


def test_put_after_a_number_gives_a_greater_one(kinesis: Any, stream: dict[str, str]) -> None:
    (first,) = put(kinesis, stream, b"1")
    second = kinesis.put_record(
        **stream, Data=b"2", PartitionKey="k", SequenceNumberForOrdering=first
    )["SequenceNumber"]
    assert int(second) > int(first)


@pytest.mark.parametrize(
    ("kind", "more", "found"),
    [
        ("TRIM_HORIZON", {}, [b"1", b"2", b"3"]),
        ("LATEST", {}, []),
        ("AT_SEQUENCE_NUMBER", {"number": 1}, [b"2", b"3"]),
        ("AFTER_SEQUENCE_NUMBER", {"number": 1}, [b"3"]),
        ("AFTER_SEQUENCE_NUMBER", {"number": 2}, []),
        ("AT_TIMESTAMP", {"seconds": -9}, [b"1", b"2", b"3"]),
        ("AT_TIMESTAMP", {"seconds": 1}, [b"2", b"3"]),
        ("AT_TIMESTAMP", {"seconds": 10}, [b"2", b"3"]),
        ("AT_TIMESTAMP", {"seconds": 30}, []),
    ],
)
def test_every_kind_of_iterator(
    service: Service, kinesis: Any, stream: dict[str, str], kind: str, more: Any, found: list[bytes]
) -> None:
    numbers = []
    for data in (b"1", b"2", b"3"):
        numbers += put(kinesis, stream, data)
        service.clock.advance(10)
    request: dict[str, Any] = {}
    if "number" in more:
        request["StartingSequenceNumber"] = numbers[more["number"]]
    if "seconds" in more:
        request["Timestamp"] = START + timedelta(seconds=more["seconds"])
    opened = iterator(kinesis, stream, 0, kind, **request)
    put(kinesis, stream, b"later")
    assert read(kinesis, opened)[0] == [*found, b"later"]


def test_reading_goes_on_page_by_page(
    service: Service, kinesis: Any, stream: dict[str, str]
) -> None:
    put(kinesis, stream, b"1", b"2", b"3")
    service.clock.advance(5)
    data, page = read(kinesis, iterator(kinesis, stream, 0, "TRIM_HORIZON"), Limit=2)
    assert (data, page["MillisBehindLatest"]) == ([b"1", b"2"], 5000)
    data, page = read(kinesis, page["NextShardIterator"], Limit=2)
    assert (data, page["MillisBehindLatest"]) == ([b"3"], 0)
    data, page = read(kinesis, page["NextShardIterator"])
    assert data == []
    put(kinesis, stream, b"4")
    assert read(kinesis, page["NextShardIterator"])[0] == [b"4"]


def test_a_page_holds_ten_mebibytes_or_ten_thousand(kinesis: Any, stream: dict[str, str]) -> None:
    big = [{"Data": bytes(1_000_000), "PartitionKey": "k", "ExplicitHashKey": "0"}] * 6
    for _ in range(2):
        kinesis.put_records(**stream, Records=big)
    data, page = read(kinesis, iterator(kinesis, stream, 0, "TRIM_HORIZON"))
    assert len(data) == 10
    assert page["MillisBehindLatest"] > 0
    assert len(read(kinesis, page["NextShardIterator"])[0]) == 2
    small = [{"Data": b"", "PartitionKey": "k", "ExplicitHashKey": str(HALF)}] * 500
    for _ in range(21):
        kinesis.put_records(**stream, Records=small)
    data, page = read(kinesis, iterator(kinesis, stream, 1, "TRIM_HORIZON"))
    assert len(data) == 10_000
    assert len(read(kinesis, page["NextShardIterator"])[0]) == 500


# --- resharding -------------------------------------------------------------------------------


@pytest.mark.req("O-04")
def test_split_closes_the_parent_for_good(kinesis: Any, stream: dict[str, str]) -> None:
    put(kinesis, stream, b"1", hash_key=5)
    kinesis.split_shard(**stream, ShardToSplit=shard(0), NewStartingHashKey="1000")
    put(kinesis, stream, b"2", hash_key=999)
    put(kinesis, stream, b"3", hash_key=1000)
    parent, _, low, high = kinesis.list_shards(**stream)["Shards"]
    assert parent["HashKeyRange"] == {"StartingHashKey": "0", "EndingHashKey": str(HALF - 1)}
    assert low["HashKeyRange"] == {"StartingHashKey": "0", "EndingHashKey": "999"}
    assert high["HashKeyRange"] == {"StartingHashKey": "1000", "EndingHashKey": str(HALF - 1)}
    assert low["ParentShardId"] == high["ParentShardId"] == shard(0)
    ending = int(parent["SequenceNumberRange"]["EndingSequenceNumber"])
    for child in (low, high):
        assert int(child["SequenceNumberRange"]["StartingSequenceNumber"]) > ending
        assert "EndingSequenceNumber" not in child["SequenceNumberRange"]
    data, page = read(kinesis, iterator(kinesis, stream, 0, "TRIM_HORIZON"))
    assert data == [b"1"]
    assert "NextShardIterator" not in page  # boto3 leaves out what is null
    assert [
        (each["ShardId"], each["ParentShards"], each["HashKeyRange"])
        for each in page["ChildShards"]
    ] == [(each["ShardId"], [shard(0)], each["HashKeyRange"]) for each in (low, high)]
    assert read(kinesis, iterator(kinesis, stream, 2, "TRIM_HORIZON"))[0] == [b"2"]
    assert read(kinesis, iterator(kinesis, stream, 3, "TRIM_HORIZON"))[0] == [b"3"]


def test_merge_names_both_parents(kinesis: Any, stream: dict[str, str]) -> None:
    kinesis.merge_shards(**stream, ShardToMerge=shard(0), AdjacentShardToMerge=shard(1))
    child = kinesis.list_shards(**stream)["Shards"][2]
    assert (child["ParentShardId"], child["AdjacentParentShardId"]) == (shard(0), shard(1))
    assert child["HashKeyRange"] == {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
    for parent in (0, 1):
        _, page = read(kinesis, iterator(kinesis, stream, parent, "TRIM_HORIZON"))
        (named,) = page["ChildShards"]
        assert (named["ShardId"], named["ParentShards"]) == (shard(2), [shard(0), shard(1)])


@pytest.mark.parametrize("target", [1, 2, 3, 4, 7])
def test_update_shard_count_leaves_uniform_ranges(
    kinesis: Any, stream: dict[str, str], target: int
) -> None:
    answer = kinesis.update_shard_count(
        **stream, TargetShardCount=target, ScalingType="UNIFORM_SCALING"
    )
    assert (answer["CurrentShardCount"], answer["TargetShardCount"]) == (2, target)
    shards = kinesis.list_shards(**stream, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    ranges = sorted(
        (int(each["HashKeyRange"]["StartingHashKey"]), int(each["HashKeyRange"]["EndingHashKey"]))
        for each in shards
    )
    assert len(ranges) == target
    assert (ranges[0][0], ranges[-1][1]) == (0, 2**128 - 1)
    assert all(a[1] + 1 == b[0] for a, b in pairwise(ranges))
    sizes = [end - start for start, end in ranges]
    assert max(sizes) - min(sizes) <= target


# --- listing ----------------------------------------------------------------------------------


def test_listing_comes_in_pages(service: Service, kinesis: Any, stream: dict[str, str]) -> None:
    kinesis.update_shard_count(**stream, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    first = kinesis.list_shards(**stream, MaxResults=4)
    assert len(first["Shards"]) == 4
    assert listed(kinesis, NextToken=first["NextToken"]) == [shard(4), shard(5)]
    assert listed(kinesis, **stream, ExclusiveStartShardId=shard(3)) == [shard(4), shard(5)]
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        kinesis.list_shards(StreamName="orders", NextToken=first["NextToken"])
    service.clock.advance(301)
    with pytest.raises(kinesis.exceptions.ExpiredNextTokenException):
        kinesis.list_shards(NextToken=first["NextToken"])


@pytest.mark.parametrize(
    ("shard_filter", "found"),
    [
        ({"Type": "FROM_TRIM_HORIZON"}, [0, 1, 2, 3, 4]),
        ({"Type": "AT_TRIM_HORIZON"}, [0, 1]),
        ({"Type": "AT_LATEST"}, [2, 4]),
        ({"Type": "AFTER_SHARD_ID", "ShardId": shard(1)}, [2, 3, 4]),
        ({"Type": "AT_TIMESTAMP", "seconds": -60}, [0, 1]),
        ({"Type": "AT_TIMESTAMP", "seconds": 5}, [0, 1]),
        ({"Type": "AT_TIMESTAMP", "seconds": 15}, [1, 2, 3]),
        ({"Type": "AT_TIMESTAMP", "seconds": 25}, [2, 4]),
        ({"Type": "FROM_TIMESTAMP", "seconds": -60}, [0, 1, 2, 3, 4]),
        ({"Type": "FROM_TIMESTAMP", "seconds": 15}, [1, 2, 3, 4]),
        ({"Type": "FROM_TIMESTAMP", "seconds": 25}, [2, 4]),
    ],
)
def test_every_filter(
    service: Service,
    kinesis: Any,
    stream: dict[str, str],
    shard_filter: dict[str, Any],
    found: list[int],
) -> None:
    """The first shard is split after 10 s; its upper child merges with the second after 20 s."""
    service.clock.advance(10)
    kinesis.split_shard(**stream, ShardToSplit=shard(0), NewStartingHashKey="1000")
    service.clock.advance(10)
    kinesis.merge_shards(**stream, ShardToMerge=shard(3), AdjacentShardToMerge=shard(1))
    service.clock.advance(10)
    asked = dict(shard_filter)
    if "seconds" in asked:
        asked["Timestamp"] = START + timedelta(seconds=asked.pop("seconds"))
    assert listed(kinesis, **stream, ShardFilter=asked) == [shard(index) for index in found]
    first = kinesis.list_shards(**stream, ShardFilter=asked, MaxResults=1)
    rest = listed(kinesis, NextToken=first["NextToken"]) if len(found) > 1 else []
    assert [first["Shards"][0]["ShardId"], *rest] == [shard(index) for index in found]
