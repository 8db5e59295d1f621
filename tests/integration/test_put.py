"""Records written through HTTP: refusals, lost answers, reshards, quotas, aggregation."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

import shardline
from shardline.errors import ConfigurationError, StreamNotFound, Throttled
from shardline.local import Service
from shardline.services.access import Access
from shardline.services.put.stream import connect_to_put
from shardline.services.put.writer import Writer
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True) as running:
        yield running


def create(service: Service, shards: int = 2) -> str:
    with closing(service.client("kinesis")) as client:
        client.create_stream(StreamName="orders", ShardCount=shards)
        wait_until_active(client, "orders")
    return service.endpoint_url


def written(service: Service) -> dict[str, list[bytes]]:
    """Return what the stream has, by key; a parent has a lower number than its children."""
    records: list[tuple[str, bytes]] = []
    # What was written is asked, not how fast it can be read, and no listing may lack a shard.
    service.limits.enabled = False
    service.settings.stale_listing_one_in = 0
    with closing(service.client("kinesis")) as client:
        for shard in client.list_shards(StreamName="orders")["Shards"]:
            place = {"StreamName": "orders", "ShardId": shard["ShardId"]}
            iterator = client.get_shard_iterator(**place, ShardIteratorType="TRIM_HORIZON")
            page = {"NextShardIterator": iterator["ShardIterator"], "MillisBehindLatest": 1}
            while page.get("NextShardIterator") and page["MillisBehindLatest"]:
                page = client.get_records(ShardIterator=page["NextShardIterator"])
                records += [(each["PartitionKey"], each["Data"]) for each in page["Records"]]
    return by_key(records)


def by_key(records: list[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = defaultdict(list)
    for key, data in records:
        found[key].append(data)
    return found


@pytest.mark.req("S-01", "S-11")
def test_a_third_of_the_entries_refused(service: Service) -> None:
    url = create(service, shards=4)
    service.faults.add("throttle", "PutRecords", times=None, probability=1 / 3)
    records = [(f"key-{n % 50}", b"%d" % n) for n in range(10_000)]
    result = shardline.put("kinesis://orders", records, endpoint_url=url)
    assert written(service) == by_key(records)
    assert result.records == 10_000
    assert result.refused > 3_000
    assert set(result.last) <= {f"shardId-{n:012d}" for n in range(4)}


@pytest.mark.req("S-06")
@pytest.mark.parametrize("fault", ["lose-reply", "cut-answer", "cut", "internal-failure"])
def test_a_lost_answer_repeats_records_directly_after_themselves(
    service: Service, fault: Any
) -> None:
    url = create(service)
    service.faults.add(fault, "PutRecords", times=2)
    records = [(f"key-{n % 5}", b"%d" % n) for n in range(50)]
    shardline.put("kinesis://orders", records, endpoint_url=url)
    found = written(service)
    repeated = sum(map(len, found.values())) - len(records)
    assert (repeated > 0) is (fault in ("lose-reply", "cut-answer"))
    for key, data in by_key(records).items():
        once = [b for a, b in zip([None, *found[key]], found[key], strict=False) if a != b]
        assert once == data


@pytest.mark.req("S-07")
def test_keys_keep_their_order_through_a_split_and_a_merge_while_writing(service: Service) -> None:
    url = create(service, shards=1)
    records = [(f"key-{n % 20}", b"%d" % n) for n in range(2_000)]
    with closing(service.client("kinesis")) as client:

        def feed() -> Iterator[tuple[str, bytes]]:
            for number, record in enumerate(records):
                if number == 700:
                    client.split_shard(
                        StreamName="orders",
                        ShardToSplit="shardId-000000000000",
                        NewStartingHashKey=str(2**127),
                    )
                if number == 1_400:
                    wait_until_active(client, "orders")
                    client.merge_shards(
                        StreamName="orders",
                        ShardToMerge="shardId-000000000001",
                        AdjacentShardToMerge="shardId-000000000002",
                    )
                yield record

        result = shardline.put("kinesis://orders", feed(), endpoint_url=url)
    assert result.records == len(records)
    assert written(service) == by_key(records)


@pytest.mark.req("S-05")
def test_one_hot_shard_is_paced_and_does_not_hold_up_the_other(service: Service) -> None:
    """The hot shard gets three seconds' worth of its quota, the other one a tenth of a second's."""
    url = create(service)
    hot, cold = "0", str(2**128 - 1)
    stream = connect_to_put("kinesis://orders", Access(endpoint_url=url))
    with Writer(stream, connections=2) as writer:
        for number in range(3_000):
            writer.put(f"hot-{number % 100}", b"%d" % number, hot)
            if number % 30 == 0:
                writer.put(f"cold-{number % 9}", b"%d" % number, cold)
        result = writer.flush()
    assert result.records == 3_100
    assert result.refused <= 100
    found = written(service)
    assert found["hot-7"] == [b"%d" % number for number in range(7, 3_000, 100)]


@pytest.mark.req("S-03")
def test_a_shard_that_refuses_for_good_fails_the_writer(service: Service) -> None:
    url = create(service)
    service.faults.add("throttle", "PutRecords", times=None)
    with pytest.raises(Throttled, match=r"shard shardId-\d+ has refused .* give the stream more"):
        shardline.put("kinesis://orders", [("a", b"1")], endpoint_url=url, give_up_seconds=0.2)
    assert written(service) == {}


def test_a_stream_that_is_missing(service: Service) -> None:
    with pytest.raises(StreamNotFound, match="check the name"):
        shardline.put("kinesis://none", [("a", b"1")], endpoint_url=service.endpoint_url)


@pytest.mark.req("S-04")
def test_records_of_every_size_up_to_what_the_stream_takes(service: Service) -> None:
    url = create(service)
    with closing(service.client("kinesis")) as client:
        arn = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
        client.update_max_record_size(StreamARN=arn["StreamARN"], MaxRecordSizeInKiB=10240)
        wait_until_active(client, "orders")
    sizes = [0, 1, 1024, 3 << 20, 3 << 20, 8 << 20, 1]
    records = [(f"key-{n % 3}", bytes(size)) for n, size in enumerate(sizes)]
    shardline.put("kinesis://orders", records, endpoint_url=url)
    found = {key: [len(data) for data in contents] for key, contents in written(service).items()}
    assert found == {f"key-{n}": sizes[n::3] for n in range(3)}
    with pytest.raises(ConfigurationError, match="split it"):
        shardline.put("kinesis://orders", [("a", bytes(11 << 20))], endpoint_url=url)


@pytest.mark.req("S-08")
def test_packed_records_come_out_one_by_one_in_order(service: Service) -> None:
    url = create(service)
    service.faults.add("throttle", "PutRecords", times=None, probability=0.3)
    records = [(f"key-{n % 3}", b"%d" % n * (n % 50)) for n in range(3_000)]
    result = shardline.put("kinesis://orders", records, endpoint_url=url, aggregate=True)
    assert result.records == 3_000
    assert result.calls < 300
    with shardline.stream("kinesis://orders", "trim_horizon", endpoint_url=url) as stream:
        found = [(each.partition_key, each.data) for each in islice(stream, len(records))]
    assert by_key(found) == by_key(records)


@pytest.mark.req("S-11")
def test_a_slow_iterable_is_written_while_it_goes_on(service: Service) -> None:
    """Each record is waited for in the stream before the next one is given."""
    url = create(service)
    seen = threading.Event()

    def feed() -> Iterator[tuple[str, bytes]]:
        with shardline.stream("kinesis://orders", "trim_horizon", endpoint_url=url) as stream:
            records = iter(stream)
            for number in range(3):
                yield "a", b"%d" % number
                assert next(records).data == b"%d" % number
        seen.set()

    shardline.put("kinesis://orders", feed(), endpoint_url=url)
    assert seen.is_set()
