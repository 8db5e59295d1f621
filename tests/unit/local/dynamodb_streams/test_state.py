"""The embedded DynamoDB Streams, called as the HTTP server calls it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.local.dynamodb_streams.operations import DynamoDBStreamsBackend
from shardline.local.faults import Faults
from shardline.local.refusals import Refusal
from shardline.local.settings import Settings

NOW_MS = 1_800_000_000_000
MILLISECOND, MINUTE, HOUR = 0.001, 60, 3600


class Table:
    """One table of a backend at a time that the test sets."""

    def __init__(self, name: str = "users", **options: Any) -> None:
        self.name = name
        self.clock = Clock(datetime.fromtimestamp(NOW_MS / 1000, UTC))
        self.faults = Faults()
        self.settings = Settings()
        self.backend = DynamoDBStreamsBackend(Tables(self.clock), self.faults, self.settings)
        created = self.control("create_table", **options)
        self.arn: str = created["stream_arn"]
        self.roots: list[str] = created["shards"]

    def control(self, operation: str, **request: Any) -> dict[str, Any]:
        return self.backend.control(operation, {"table": self.name, **request}, self.clock.now_ms())

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.backend.call(operation, request, self.clock.now_ms())
        )
        return answer

    def put(self, key: str, **request: Any) -> tuple[str, str]:
        if not {"old", "new", "event_name"} & set(request):
            request["new"] = {"id": {"S": key}}
        put = self.control("put_change", keys={"id": {"S": key}}, **request)
        return put["shard"], put["sequence_number"]

    def shards(self, **request: Any) -> list[dict[str, Any]]:
        answer = self.call("DescribeStream", StreamArn=self.arn, **request)
        shards: list[dict[str, Any]] = answer["StreamDescription"]["Shards"]
        return shards

    def open(self, shard: str, kind: str = "TRIM_HORIZON", **request: Any) -> str:
        answer = self.call(
            "GetShardIterator",
            StreamArn=self.arn,
            ShardId=shard,
            ShardIteratorType=kind,
            **request,
        )
        iterator: str = answer["ShardIterator"]
        return iterator

    def read(self, iterator: str, **request: Any) -> tuple[list[str], str | None]:
        answer = self.call("GetRecords", ShardIterator=iterator, **request)
        return [record["dynamodb"]["Keys"]["id"]["S"] for record in answer["Records"]], answer[
            "NextShardIterator"
        ]


def refused(name: str, act: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(Refusal) as refusal:
        act(*arguments, **options)
    assert refusal.value.name == name
    return refusal.value.message


def test_a_change_is_read_back_with_every_field_of_the_service() -> None:
    table = Table(view_type="NEW_AND_OLD_IMAGES", range_key="day")
    keys = {"id": {"S": "a"}, "day": {"N": "3"}}
    old, new = keys | {"n": {"N": "1"}}, keys | {"n": {"N": "2"}}
    put = table.control("put_change", keys=keys, old=old, new=new)

    answer = table.call("GetRecords", ShardIterator=table.open(table.roots[0]))

    (record,) = answer["Records"]
    assert len(record.pop("eventID")) == 32
    assert record == {
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": NOW_MS // 1000,
            "Keys": keys,
            "NewImage": new,
            "OldImage": old,
            "SequenceNumber": put["sequence_number"],
            "SizeBytes": 3 + 4 + 2 * (3 + 4 + 2),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    }
    assert len(put["sequence_number"]) >= 21
    assert answer["NextShardIterator"]


@pytest.mark.parametrize(
    ("view_type", "images"),
    [
        ("KEYS_ONLY", set()),
        ("NEW_IMAGE", {"NewImage"}),
        ("OLD_IMAGE", {"OldImage"}),
        ("NEW_AND_OLD_IMAGES", {"NewImage", "OldImage"}),
    ],
)
def test_the_view_type_decides_which_images_a_change_has(view_type: str, images: set[str]) -> None:
    table = Table(view_type=view_type)
    item = {"id": {"S": "a"}}
    table.put("a", new=item)
    table.put("a", old=item, new=item)
    table.put("a", old=item)
    records = table.call("GetRecords", ShardIterator=table.open(table.roots[0]))["Records"]
    assert [record["eventName"] for record in records] == ["INSERT", "MODIFY", "REMOVE"]
    shown = [{"NewImage", "OldImage"} & set(record["dynamodb"]) for record in records]
    assert shown == [images & {"NewImage"}, images, images & {"OldImage"}]


def test_a_delete_by_time_to_live_names_the_service() -> None:
    table = Table()
    table.put("a", old={"id": {"S": "a"}}, by_ttl=True)
    (record,) = table.call("GetRecords", ShardIterator=table.open(table.roots[0]))["Records"]
    assert record["userIdentity"] == {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


def test_a_creation_time_may_be_set_and_run_backwards() -> None:
    table = Table()
    for hour in (5, 3, 4):
        table.put(str(hour), at=f"2026-11-15T0{hour}:00:00.900Z")
    records = table.call("GetRecords", ShardIterator=table.open(table.roots[0]))["Records"]
    times = [record["dynamodb"]["ApproximateCreationDateTime"] for record in records]
    expected = [datetime(2026, 11, 15, hour, tzinfo=UTC).timestamp() for hour in (5, 3, 4)]
    assert times == expected, "rounded down to the second, in the order of writing"


@pytest.mark.req("C-19", "C-22", "C-24")
def test_a_hash_key_goes_to_one_shard_and_after_a_split_to_one_child_always() -> None:
    table = Table(shards=3)
    keys = [f"key-{index}" for index in range(200)]
    before = {key: table.put(key)[0] for key in keys}
    assert set(before.values()) == set(table.roots)
    children = table.control("split", shard=table.roots[1])["children"]
    first = {key: table.put(key)[0] for key in keys}
    again = {key: table.put(key)[0] for key in keys}
    assert first == again
    for key in keys:
        expected = children if before[key] == table.roots[1] else [before[key]]
        assert first[key] in expected
    assert set(children) < set(first.values()), "both children take keys"
    (grandchild,) = table.control("roll", shard=children[0])["children"]
    for key in keys:
        expected_shard = grandchild if first[key] == children[0] else first[key]
        assert table.put(key)[0] == expected_shard


def test_a_roll_opens_one_child_that_takes_all_keys_of_its_parent() -> None:
    table = Table()
    (child,) = table.control("roll", shard=table.roots[0])["children"]
    assert {table.put(str(key))[0] for key in range(50)} == {child}
    parent, listed_child = table.shards()
    assert listed_child["ParentShardId"] == parent["ShardId"] == table.roots[0]
    assert "EndingSequenceNumber" in parent["SequenceNumberRange"]
    assert "EndingSequenceNumber" not in listed_child["SequenceNumberRange"]
    refused("ValidationException", table.control, "roll", shard=table.roots[0])


def test_a_closed_shard_is_read_to_a_null_iterator_and_no_record_has_its_bounds() -> None:
    table = Table()
    numbers = [table.put(str(key))[1] for key in range(3)]
    table.control("split", shard=table.roots[0])
    page, iterator = table.read(table.open(table.roots[0]), Limit=2)
    assert (page, iterator is None) == (["0", "1"], False)
    assert iterator is not None
    assert table.read(iterator) == (["2"], None)
    bounds = table.shards()[0]["SequenceNumberRange"]
    assert bounds["StartingSequenceNumber"] < numbers[0] < numbers[2]
    assert numbers[2] < bounds["EndingSequenceNumber"]
    for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        refused(
            "ValidationException",
            table.open,
            table.roots[0],
            kind,
            SequenceNumber=bounds["EndingSequenceNumber"],
        )


def test_an_empty_closed_shard_ends_at_once() -> None:
    table = Table()
    table.control("split", shard=table.roots[0])
    for kind in ("TRIM_HORIZON", "LATEST"):
        assert table.read(table.open(table.roots[0], kind)) == ([], None)


def test_every_kind_of_iterator_starts_where_it_says() -> None:
    table = Table()
    shard = table.roots[0]
    numbers = []
    for key in range(4):
        table.clock.advance(1)
        numbers.append(table.put(str(key))[1])
    at, after = "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"
    assert table.read(table.open(shard, at, SequenceNumber=numbers[2]))[0] == ["2", "3"]
    assert table.read(table.open(shard, after, SequenceNumber=numbers[2]))[0] == ["3"]
    latest = table.open(shard, "LATEST")
    table.put("4")
    assert table.read(latest)[0] == ["4"]
    third = table.open(shard, "AT_TIMESTAMP", Timestamp=NOW_MS / 1000 + 3)
    assert table.read(third)[0] == ["2", "3", "4"]
    future = table.clock.now_ms() / 1000 + 1
    refused("ValidationException", table.open, shard, "AT_TIMESTAMP", Timestamp=future)


def test_a_page_has_at_most_a_thousand_records_and_a_megabyte() -> None:
    table = Table()
    for key in range(1001):
        table.put(str(key))
    page, iterator = table.read(table.open(table.roots[0]))
    assert len(page) == 1000
    assert iterator is not None
    table.put("big", new={"id": {"S": "big"}, "text": {"S": "x" * 700_000}})
    table.put("too big for one page", new={"id": {"S": "b"}, "text": {"S": "x" * 700_000}})
    page, iterator = table.read(iterator)
    assert page == ["1000", "big"]
    assert iterator is not None
    assert table.read(iterator)[0] == ["too big for one page"]
    refused("LimitExceededException", table.read, iterator, Limit=1001)
    refused("ValidationException", table.read, iterator, Limit=0)


def test_an_iterator_expires_after_fifteen_minutes() -> None:
    table = Table()
    table.put("a")
    iterator = table.open(table.roots[0])
    table.clock.advance(15 * MINUTE - MILLISECOND)
    page, next_iterator = table.read(iterator)
    assert page == ["a"]
    table.clock.advance(MILLISECOND)
    refused("ExpiredIteratorException", table.read, iterator)
    assert next_iterator is not None
    assert table.read(next_iterator)[0] == []


def test_changes_are_trimmed_after_a_day_and_a_trimmed_position_is_refused() -> None:
    table = Table()
    shard = table.roots[0]
    numbers = [table.put(key)[1] for key in ("a", "b")]
    table.clock.advance(24 * HOUR - MINUTE)
    at_the_oldest = table.open(shard)
    late = table.put("c")[1]
    table.clock.advance(MINUTE)
    trimmed = "TrimmedDataAccessException"
    refused(trimmed, table.read, at_the_oldest)
    for number in numbers:
        refused(trimmed, table.open, shard, "AT_SEQUENCE_NUMBER", SequenceNumber=number)
        refused(trimmed, table.open, shard, "AFTER_SEQUENCE_NUMBER", SequenceNumber=number)
    assert table.read(table.open(shard))[0] == ["c"]
    assert table.read(table.open(shard, "AT_SEQUENCE_NUMBER", SequenceNumber=late))[0] == ["c"]


def test_an_expired_closed_shard_leaves_the_listing_and_stays_the_parent_of_its_child() -> None:
    table = Table()
    table.put("a")
    (child,) = table.control("roll", shard=table.roots[0])["children"]
    table.clock.advance(24 * HOUR - MILLISECOND)
    assert [shard["ShardId"] for shard in table.shards()] == [table.roots[0], child]
    table.clock.advance(MILLISECOND)
    (listed,) = table.shards()
    assert (listed["ShardId"], listed["ParentShardId"]) == (child, table.roots[0])
    refused("ResourceNotFoundException", table.open, table.roots[0])


def test_listings_are_paged_also_when_the_shard_of_the_last_page_expired() -> None:
    table = Table(shards=5)
    first = table.call("DescribeStream", StreamArn=table.arn, Limit=2)["StreamDescription"]
    last = first["LastEvaluatedShardId"]
    assert [shard["ShardId"] for shard in first["Shards"]] == table.roots[:2]
    rest = table.shards(ExclusiveStartShardId=last)
    assert [shard["ShardId"] for shard in rest] == table.roots[2:]
    table.control("roll", shard=last)
    table.clock.advance(24 * HOUR)
    assert [shard["ShardId"] for shard in table.shards(ExclusiveStartShardId=last)][
        :3
    ] == table.roots[2:]
    refused("ValidationException", table.shards, Limit=101)


def test_without_a_limit_a_listing_has_a_hundred_shards() -> None:
    table = Table(shards=101)
    answer = table.call("DescribeStream", StreamArn=table.arn)["StreamDescription"]
    assert len(answer["Shards"]) == 100
    assert answer["LastEvaluatedShardId"] == table.roots[99]


def test_a_filter_gives_the_children_of_a_shard_only() -> None:
    table = Table(shards=2)
    children = table.control("split", shard=table.roots[0])["children"]
    table.control("roll", shard=children[0])
    found = table.shards(ShardFilter={"Type": "CHILD_SHARDS", "ShardId": table.roots[0]})
    assert [shard["ShardId"] for shard in found] == children


def test_streams_are_listed_by_table_in_pages() -> None:
    table = Table("users")
    for name in ("orders", "events"):
        table.backend.control("create_table", {"table": name}, NOW_MS)
    (only,) = table.call("ListStreams", TableName="orders")["Streams"]
    assert only["TableName"] == "orders"
    first = table.call("ListStreams", Limit=2)
    second = table.call("ListStreams", ExclusiveStartStreamArn=first["LastEvaluatedStreamArn"])
    names = [stream["TableName"] for stream in first["Streams"] + second["Streams"]]
    assert names == ["users", "orders", "events"]
    assert "LastEvaluatedStreamArn" not in second
    assert table.call("ListStreams", TableName="nobody") == {"Streams": []}


def test_a_stream_made_again_has_another_arn_and_a_disabled_one_stays_readable_for_a_day() -> None:
    table = Table()
    table.put("a")
    table.control("disable_stream")
    description = table.call("DescribeStream", StreamArn=table.arn)["StreamDescription"]
    assert description["StreamStatus"] == "DISABLED"
    assert table.read(table.open(table.roots[0])) == (["a"], None)
    again = table.control("create_table")
    assert again["stream_arn"] != table.arn
    assert len(table.call("ListStreams", TableName="users")["Streams"]) == 2
    table.clock.advance(24 * HOUR)
    refused("ResourceNotFoundException", table.open, table.roots[0])
    table.control("delete_stream")
    assert table.call("ListStreams", TableName="users") == {"Streams": []}


@pytest.mark.parametrize(
    ("kind", "shown"), [("stale-listing", ["open"]), ("open-parent", ["open", "open", "open"])]
)
def test_listings_can_be_late(kind: Any, shown: list[str]) -> None:
    table = Table()
    table.control("split", shard=table.roots[0])
    table.faults.add(kind)
    ranges = [shard["SequenceNumberRange"] for shard in table.shards()]
    assert ["closed" if "EndingSequenceNumber" in each else "open" for each in ranges] == shown
    assert len(table.shards()) == 3, "once only"
    assert "EndingSequenceNumber" in table.shards()[0]["SequenceNumberRange"]


def test_the_end_of_a_shard_can_come_without_the_field() -> None:
    table = Table()
    table.control("split", shard=table.roots[0])
    table.faults.add("missing-next-iterator")
    answer = table.call("GetRecords", ShardIterator=table.open(table.roots[0]))
    assert answer == {"Records": []}


def test_pages_can_be_empty_with_more_behind_them() -> None:
    table = Table()
    table.put("a")
    table.settings.empty_page_every = 2
    iterator: str | None = table.open(table.roots[0])
    pages = []
    for _ in range(3):
        assert iterator is not None
        page, iterator = table.read(iterator, Limit=1)
        table.put("b")
        pages.append(page)
    assert pages == [["a"], [], ["b"]]


def test_a_call_is_known_by_its_shard_so_that_faults_can_meet_it() -> None:
    table = Table()
    iterator = table.open(table.roots[0])
    shard_of = table.backend.shard_of
    assert shard_of("GetRecords", {"ShardIterator": iterator}) == table.roots[0]
    assert shard_of("GetShardIterator", {"ShardId": "s"}) == "s"
    assert shard_of("GetRecords", {}) is None
    assert shard_of("ListStreams", {}) is None


def test_sequence_numbers_and_shards_may_be_chosen_but_rise_within_a_shard() -> None:
    table = Table()
    one, two = table.control("split", shard=table.roots[0])["children"]
    assert table.put("a", shard=one, sequence_number="900") == (one, "900".zfill(21))
    assert table.put("b", shard=two, sequence_number="500") == (two, "500".zfill(21))
    refused("ValidationException", table.put, "a", shard=one, sequence_number="900")
    refused("ValidationException", table.put, "a", shard=table.roots[0])
    (child,) = table.control("roll", shard=two)["children"]
    assert int(table.put("b", shard=child)[1]) > 900


def test_bad_requests_are_refused_by_name() -> None:
    table = Table()
    shard = table.roots[0]
    number = table.put("a")[1]
    call, control = table.call, table.control
    invalid, missing = "ValidationException", "ResourceNotFoundException"
    refused("UnknownOperationException", call, "PutRecord")
    refused("UnknownOperationException", control, "explode")
    refused(missing, call, "DescribeStream", StreamArn=table.arn + "1")
    refused(missing, table.open, shard + "1")
    refused(invalid, call, "DescribeStream")
    refused(invalid, call, "ListStreams", Limit="many")
    refused(invalid, call, "ListStreams", ExclusiveStartStreamArn="arn:nothing")
    refused(invalid, table.open, shard, "SOMEWHERE")
    refused(invalid, table.open, shard, "AT_SEQUENCE_NUMBER")
    refused(invalid, table.open, shard, "AT_SEQUENCE_NUMBER", SequenceNumber="abc")
    refused(invalid, table.open, shard, "AT_SEQUENCE_NUMBER", SequenceNumber="9" * 21)
    refused(invalid, table.open, shard, "LATEST", SequenceNumber=number)
    refused(invalid, table.open, shard, "AT_TIMESTAMP")
    refused(invalid, table.read, "not an iterator")
    refused(invalid, table.read, "a|1|????")
    refused("ResourceInUseException", control, "create_table")
    refused(invalid, control, "create_table", shards=0)
    refused(invalid, control, "create_table", view_type="EVERYTHING")
    refused(missing, control, "split", shard="shardId-unknown")
    refused(missing, table.backend.control, "split", {"table": "nobody", "shard": "s"}, NOW_MS)
    refused(invalid, control, "put_change", keys={"other": {"S": "a"}}, event_name="INSERT")
    refused(invalid, control, "put_change", keys={"id": {"S": "a"}})
    refused(invalid, control, "put_change", keys={"id": {"S": "a"}}, colour="blue")
    message = refused(
        invalid, control, "put_change", keys={"id": {"S": "a"}}, new={"id": {"Text": "a"}}
    )
    assert "attribute value" in message
    assert table.read(table.open(shard))[0] == ["a"], "what was refused was not written"


def test_empty_pages_are_counted_for_each_shard() -> None:
    table = Table(shards=2)
    table.settings.empty_page_every = 2
    first, second = (table.open(root) for root in table.roots)
    for root in table.roots:
        table.put("a", shard=root)
    # The reads of the one shard must not decide which pages of the other are empty.
    assert [len(table.read(iterator)[0]) for iterator in (first, second)] == [1, 1]
