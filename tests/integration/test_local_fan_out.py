"""Enhanced fan-out of the embedded service, by boto3 over HTTP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, EventStreamError

from shardline.local import Clock, Service
from shardline.local.kinesis.consumers import MAX_CONSUMERS
from tests.contract.reading import wait_until
from tests.integration.kinesis_calls import START, client_of, put, shard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAM = {"StreamName": "orders"}
STREAM_ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
FROM_HORIZON = {"Type": "TRIM_HORIZON"}


@pytest.fixture
def kinesis(service: Service) -> Any:
    kinesis = client_of(service)
    kinesis.create_stream(**STREAM, ShardCount=1)
    return kinesis


def register(kinesis: Any, name: str = "billing") -> str:
    answer = kinesis.register_stream_consumer(StreamARN=STREAM_ARN, ConsumerName=name)
    arn: str = answer["Consumer"]["ConsumerARN"]
    return arn


def subscribe(kinesis: Any, arn: str, index: int, start: dict[str, Any]) -> Iterator[Any]:
    answer = kinesis.subscribe_to_shard(
        ConsumerARN=arn, ShardId=shard(index), StartingPosition=start
    )
    for event in answer["EventStream"]:
        yield event["SubscribeToShardEvent"]


def after(event: dict[str, Any]) -> dict[str, Any]:
    """Return the position at which the next subscription continues."""
    number = event["ContinuationSequenceNumber"]
    return {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": number}


def data_of(event: dict[str, Any]) -> list[bytes]:
    return [record["Data"] for record in event["Records"]]


# --- consumers --------------------------------------------------------------------------------


def test_consumers_are_registered_described_listed_and_deregistered(kinesis: Any) -> None:
    arn = register(kinesis)
    assert arn.startswith(f"{STREAM_ARN}/consumer/billing:")
    by_name = {"StreamARN": STREAM_ARN, "ConsumerName": "billing"}
    for names in ({"ConsumerARN": arn}, by_name):
        described = kinesis.describe_stream_consumer(**names)["ConsumerDescription"]
        assert (described["ConsumerStatus"], described["StreamARN"]) == ("ACTIVE", STREAM_ARN)
        assert described["ConsumerCreationTimestamp"] == START
    with pytest.raises(kinesis.exceptions.ResourceInUseException):
        register(kinesis)
    with pytest.raises(kinesis.exceptions.ResourceInUseException, match="has consumers"):
        kinesis.delete_stream(**STREAM)
    summary = kinesis.describe_stream_summary(**STREAM)["StreamDescriptionSummary"]
    assert summary["ConsumerCount"] == 1
    kinesis.deregister_stream_consumer(**by_name)
    with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
        kinesis.describe_stream_consumer(ConsumerARN=arn)
    assert register(kinesis) != arn
    kinesis.delete_stream(**STREAM, EnforceConsumerDeletion=True)


@pytest.mark.req("E-08")
def test_consumers_are_listed_in_pages_and_limited(kinesis: Any) -> None:
    names = [f"consumer-{index:02d}" for index in range(MAX_CONSUMERS)]
    for name in names:
        register(kinesis, name)
    with pytest.raises(kinesis.exceptions.LimitExceededException):
        register(kinesis, "one-more")
    pages = kinesis.get_paginator("list_stream_consumers").paginate(
        StreamARN=STREAM_ARN, PaginationConfig={"PageSize": 7}
    )
    listed = [consumer["ConsumerName"] for page in pages for consumer in page["Consumers"]]
    assert listed == names


def test_a_consumer_is_creating_and_deleting_for_a_while(service: Service, kinesis: Any) -> None:
    service.settings.status_delay_ms = 1000
    arn = register(kinesis)

    def status() -> str:
        described = kinesis.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]
        text: str = described["ConsumerStatus"]
        return text

    assert status() == "CREATING"
    with pytest.raises(kinesis.exceptions.ResourceInUseException, match="CREATING"):
        next(subscribe(kinesis, arn, 0, FROM_HORIZON))
    service.clock.advance(1)
    assert status() == "ACTIVE"
    kinesis.deregister_stream_consumer(ConsumerARN=arn)
    assert status() == "DELETING"
    service.clock.advance(1)
    with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
        status()


def test_consumers_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    with Service(file=file, clock=Clock(START)) as service:
        kinesis = client_of(service)
        kinesis.create_stream(**STREAM, ShardCount=1)
        arn = register(kinesis)
        put(kinesis, STREAM, b"1")
    with Service(file=file, clock=Clock(START)) as service:
        kinesis = client_of(service)
        assert data_of(next(subscribe(kinesis, arn, 0, FROM_HORIZON))) == [b"1"]


# --- subscriptions ----------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [False, True])
def test_records_are_pushed_as_they_arrive(service: Service, kinesis: Any, limits: bool) -> None:
    service.limits.enabled = limits
    put(kinesis, STREAM, b"1", b"2")
    events = subscribe(kinesis, register(kinesis), 0, FROM_HORIZON)
    first = next(events)
    assert data_of(first) == [b"1", b"2"]
    assert first["ContinuationSequenceNumber"] == first["Records"][-1]["SequenceNumber"]
    assert first["Records"][0]["ApproximateArrivalTimestamp"] == START
    assert first["MillisBehindLatest"] == 0
    [number] = put(kinesis, STREAM, b"3")
    second = next(events)
    assert data_of(second) == [b"3"]
    assert second["ContinuationSequenceNumber"] == number


def test_every_position_can_be_subscribed_to(service: Service, kinesis: Any) -> None:
    first, _ = put(kinesis, STREAM, b"1", b"2")
    service.clock.advance(10)
    put(kinesis, STREAM, b"3")
    starts: list[tuple[dict[str, Any], list[bytes]]] = [
        (FROM_HORIZON, [b"1", b"2", b"3"]),
        ({"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": first}, [b"1", b"2", b"3"]),
        ({"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": first}, [b"2", b"3"]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": service.clock.now()}, [b"3"]),
        ({"Type": "LATEST"}, []),
    ]
    for name, (start, expected) in enumerate(starts):
        arn = register(kinesis, f"c{name}")
        assert data_of(next(subscribe(kinesis, arn, 0, start))) == expected
    with pytest.raises(kinesis.exceptions.InvalidArgumentException):
        next(subscribe(kinesis, register(kinesis), 0, {"Type": "AT_SEQUENCE_NUMBER"}))


@pytest.mark.req("E-07")
def test_an_empty_event_comes_first_and_then_every_five_seconds(
    service: Service, kinesis: Any
) -> None:
    events = subscribe(kinesis, register(kinesis), 0, {"Type": "LATEST"})
    first = next(events)
    assert (first["Records"], first["MillisBehindLatest"]) == ([], 0)
    service.clock.advance(5)
    again = next(events)
    assert again["Records"] == []
    # A subscription that continues there has neither a gap nor a repeat.
    put(kinesis, STREAM, b"1")
    next(events)
    service.clock.advance(5)
    other = subscribe(kinesis, register(kinesis, "other"), 0, after(again))
    assert data_of(next(other)) == [b"1"]


@pytest.mark.req("E-07", "E-08")
def test_a_subscription_ends_after_five_minutes_and_continues(
    service: Service, kinesis: Any
) -> None:
    arn = register(kinesis)
    put(kinesis, STREAM, b"1")
    events = subscribe(kinesis, arn, 0, FROM_HORIZON)
    last = next(events)
    service.clock.advance(300)
    for event in events:
        last = event
    put(kinesis, STREAM, b"2")
    assert data_of(next(subscribe(kinesis, arn, 0, after(last)))) == [b"2"]


@pytest.mark.req("E-08")
def test_a_second_subscription_is_refused_for_five_seconds_and_then_takes_over(
    service: Service, kinesis: Any
) -> None:
    arn = register(kinesis)
    first = subscribe(kinesis, arn, 0, FROM_HORIZON)
    next(first)
    with pytest.raises(kinesis.exceptions.ResourceInUseException):
        next(subscribe(kinesis, arn, 0, FROM_HORIZON))
    next(subscribe(kinesis, register(kinesis, "other"), 0, FROM_HORIZON))
    service.clock.advance(5)
    next(subscribe(kinesis, arn, 0, FROM_HORIZON))
    with pytest.raises(EventStreamError, match="ResourceInUseException"):
        list(first)


def test_a_subscription_ends_with_its_consumer_and_its_stream(
    service: Service, kinesis: Any
) -> None:
    arn, other = register(kinesis), register(kinesis, "other")
    first, second = (subscribe(kinesis, each, 0, FROM_HORIZON) for each in (arn, other))
    next(first)
    next(second)
    kinesis.deregister_stream_consumer(ConsumerARN=arn)
    with pytest.raises(EventStreamError, match="ResourceNotFoundException"):
        list(first)
    kinesis.delete_stream(**STREAM, EnforceConsumerDeletion=True)
    with pytest.raises(EventStreamError, match="ResourceNotFoundException"):
        list(second)


def test_an_unknown_shard_or_consumer_is_refused(kinesis: Any) -> None:
    arn = register(kinesis)
    for consumer_arn, index in ((arn, 9), (arn + "0", 0)):
        with pytest.raises(kinesis.exceptions.ResourceNotFoundException):
            next(subscribe(kinesis, consumer_arn, index, FROM_HORIZON))


def test_the_end_of_a_shard_names_its_children(kinesis: Any) -> None:
    arn = register(kinesis)
    put(kinesis, STREAM, b"1")
    events = subscribe(kinesis, arn, 0, FROM_HORIZON)
    next(events)
    kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey=str(2**127))
    *_, last = events
    assert last.get("ContinuationSequenceNumber") is None
    children = [(child["ShardId"], child["ParentShards"]) for child in last["ChildShards"]]
    assert children == [(shard(1), [shard(0)]), (shard(2), [shard(0)])]


@pytest.mark.req("E-07")
def test_a_lineage_is_read_through_a_split_and_a_merge(service: Service, kinesis: Any) -> None:
    """Follow every shard by its events alone, the children of a shard after its end."""
    arn = register(kinesis)
    started: set[str] = set()
    ended: set[str] = set()
    read: list[bytes] = []
    lock = threading.Lock()
    threads: list[threading.Thread] = []

    def follow(shard_id: str) -> None:
        answer = kinesis.subscribe_to_shard(
            ConsumerARN=arn, ShardId=shard_id, StartingPosition=FROM_HORIZON
        )
        children: list[dict[str, Any]] = []
        for event in answer["EventStream"]:
            with lock:
                read.extend(data_of(event["SubscribeToShardEvent"]))
            children = event["SubscribeToShardEvent"].get("ChildShards", [])
        with lock:
            ended.add(shard_id)
            ready = [
                child["ShardId"]
                for child in children
                if ended.issuperset(child["ParentShards"]) and child["ShardId"] not in started
            ]
            started.update(ready)
        for child_id in ready:
            start(child_id)

    def start(shard_id: str) -> None:
        thread = threading.Thread(target=follow, args=[shard_id], daemon=True)
        threads.append(thread)
        thread.start()

    start(shard(0))
    put(kinesis, STREAM, b"1", b"2")
    kinesis.split_shard(**STREAM, ShardToSplit=shard(0), NewStartingHashKey=str(2**127))
    put(kinesis, STREAM, b"3", hash_key=2**127 + 5)
    put(kinesis, STREAM, b"4", hash_key=2**127 + 5)
    kinesis.merge_shards(**STREAM, ShardToMerge=shard(1), AdjacentShardToMerge=shard(2))
    put(kinesis, STREAM, b"5", hash_key=2**127 + 5)
    wait_until(lambda: len(read) >= 5, "five records")
    service.clock.advance(300)
    wait_until(lambda: shard(3) in ended, "the end of the last subscription")
    for thread in threads:
        thread.join(timeout=10)
    assert read == [b"1", b"2", b"3", b"4", b"5"]


def test_faults_reach_subscriptions(service: Service, kinesis: Any) -> None:
    arn = register(kinesis)
    service.faults.add("throttle", "SubscribeToShard")
    with pytest.raises(ClientError, match="LimitExceeded"):
        next(subscribe(kinesis, arn, 0, FROM_HORIZON))
    next(subscribe(kinesis, arn, 0, FROM_HORIZON))
