"""The four cases of resharding, for consumers that keep their place and for those that do not."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import boto3
import pytest

import shardline
from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.local import Service
from shardline.local.traffic import Traffic, reshard_once
from shardline.local.whole_answers import repeat_cut_answers
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_SECONDS = 120
HALF = 2**127
HASH_KEYS = {"A": 0, "B": HALF}  # before a merge, or after a split, one in each shard


@pytest.fixture(params=["shardline local", "kinesalite"])
def endpoint_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kinesalite":
        yield request.getfixturevalue("kinesalite").endpoint_url
        return
    with Service(strict=True) as service:
        # What "latest" means depends on which shards the first listing shows.
        service.settings.stale_listing_one_in = 0
        yield service.endpoint_url


class Orders:
    """A stream that begins as in the diagrams: one shard to split, or two to merge."""

    def __init__(self, endpoint_url: str, reshard: str) -> None:
        self.name = f"orders-{random.randrange(10**9)}"
        self.endpoint_url = endpoint_url
        self.client = boto3.client("kinesis", endpoint_url=endpoint_url, region_name="us-east-1")
        repeat_cut_answers(self.client)
        self.client.create_stream(StreamName=self.name, ShardCount=1 if reshard == "split" else 2)
        wait_until_active(self.client, self.name)
        self._reshard = reshard

    def put(self, text: str) -> None:
        """Write A1, B1, A2, …: the letter is the partition key."""
        for data in text.split():
            self.client.put_record(
                StreamName=self.name,
                PartitionKey=data[0],
                ExplicitHashKey=str(HASH_KEYS[data[0]]),
                Data=data.encode(),
            )

    def reshard(self) -> None:
        shards = self.client.list_shards(StreamName=self.name)["Shards"]
        if self._reshard == "split":
            self.client.split_shard(
                StreamName=self.name,
                ShardToSplit=shards[0]["ShardId"],
                NewStartingHashKey=str(HALF),
            )
        else:
            self.client.merge_shards(
                StreamName=self.name,
                ShardToMerge=shards[0]["ShardId"],
                AdjacentShardToMerge=shards[1]["ShardId"],
            )
        wait_until_active(self.client, self.name)

    def stream(self, position: Any) -> shardline.Stream[Any]:
        return shardline.stream(
            f"kinesis://{self.name}", position, endpoint_url=self.endpoint_url, poll_seconds=0.05
        )


def take(stream: shardline.Stream[Any], text: str) -> None:
    """Take exactly these records, each letter's in their order, and see that no more come."""
    expected = text.split()
    given: list[str] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(given) < len(expected):
        assert time.monotonic() < deadline, f"only {given} of {expected}"
        record = next(stream)
        if record is None:
            time.sleep(0.01)
            continue
        given.append(record.data.decode())
        assert record.partition_key == given[-1][0]
    for letter in "AB":
        assert [g for g in given if g[0] == letter] == [e for e in expected if e[0] == letter]
    assert next(stream) is None


@pytest.mark.req("O-01", "O-02", "O-03", "O-05", "O-06", "O-14", "O-15", "O-16", "C-09", "C-10")
@pytest.mark.parametrize("reshard", ["split", "merge"])
def test_a_stateful_consumer_online(endpoint_url: str, reshard: str) -> None:
    orders = Orders(endpoint_url, reshard)
    orders.put("A1 B1 A2 B2")
    with orders.stream("trim_horizon") as stream:
        take(stream, "A1 B1 A2 B2")
        orders.put("A3 B3")
        orders.reshard()
        orders.put("A4 B4 A5 B5 A6 B6")
        take(stream, "A3 B3 A4 B4 A5 B5 A6 B6")


@pytest.mark.req("O-01", "O-02", "O-03", "O-05", "O-06", "O-10", "O-16", "C-09", "C-10")
@pytest.mark.case("L-16", "L-20")
@pytest.mark.parametrize("reshard", ["split", "merge"])
def test_a_stateful_consumer_offline(endpoint_url: str, reshard: str) -> None:
    orders = Orders(endpoint_url, reshard)
    orders.put("A1 B1 A2")
    with orders.stream("trim_horizon") as stream:
        take(stream, "A1 B1 A2")
        token = json.dumps(stream.token)
    orders.put("B2 A3 B3")
    orders.reshard()
    orders.put("A4 B4 A5 B5 A6 B6")
    with orders.stream(json.loads(token)) as stream:
        take(stream, "B2 A3 B3 A4 B4 A5 B5 A6 B6")
        drained = orders.stream(stream.token)
    take(drained, "")
    drained.close()


@pytest.mark.req("O-01", "O-02", "O-18", "O-19", "O-21", "O-22")
@pytest.mark.parametrize("reshard", ["split", "merge"])
def test_an_ephemeral_consumer_online(endpoint_url: str, reshard: str) -> None:
    orders = Orders(endpoint_url, reshard)
    orders.put("A1 B1")
    with orders.stream("latest") as stream:
        orders.put("A2")  # nothing was read yet, and B's shard may never have been
        take(stream, "A2")
        orders.put("A3 B3")
        orders.reshard()
        orders.put("A4 B4 A5 B5 A6 B6")
        take(stream, "A3 B3 A4 B4 A5 B5 A6 B6")


@pytest.mark.req("O-01", "O-02", "O-17", "O-20")
@pytest.mark.parametrize("reshard", ["split", "merge"])
def test_an_ephemeral_consumer_offline(endpoint_url: str, reshard: str) -> None:
    orders = Orders(endpoint_url, reshard)
    with orders.stream("latest") as stream:
        orders.put("A1 B1")
        take(stream, "A1 B1")
    orders.put("A2 B2")
    orders.reshard()
    orders.put("A3 B3")
    with orders.stream("latest") as stream:
        orders.put("A4 B4 A5 B5")
        take(stream, "A4 B4 A5 B5")


@pytest.mark.req("C-12", "O-22")
def test_a_token_of_latest_before_any_record() -> None:
    """Not on kinesalite, which never answers AT_TIMESTAMP where no record is late enough."""
    with Service(strict=True) as service:
        _take_a_token_of_latest(Orders(service.endpoint_url, "merge"))


def _take_a_token_of_latest(orders: Orders) -> None:
    orders.put("A1")
    with orders.stream("latest") as stream:
        token = json.dumps(stream.token)
        orders.put("A2 B2")
        take(stream, "A2 B2")
    with orders.stream(token) as stream:
        take(stream, "A2 B2")


@pytest.mark.req("C-01", "C-04", "C-08", "C-10", "C-18", "O-14")
def test_a_table_over_the_wire() -> None:
    with Service(strict=True) as service:
        tables = service.dynamodb.tables
        (root,) = tables.create_table("users").shards
        item = {"id": {"S": "a"}}
        tables.put_change("users", item, new=item)
        stream = shardline.stream(
            "dynamodb://users", "trim_horizon", endpoint_url=service.endpoint_url
        )
        with stream:
            (insert,) = _drain(stream, 1)
            assert (insert.event_name, insert.keys) == ("INSERT", item)
            assert (insert.new, insert.old) == (item, None)
            tables.put_change("users", item, old=item, new={**item, "n": {"N": "1"}})
            children = tables.split("users", root).children
            put = tables.put_change("users", item, old={**item, "n": {"N": "1"}})
            update, delete = _drain(stream, 2)
            assert (update.event_name, update.old) == ("MODIFY", item)
            assert (delete.event_name, delete.new) == ("REMOVE", None)
            assert put.shard in children
            assert (delete.shard_id, delete.sequence_number) == (put.shard, put.sequence_number)
            assert abs((delete.arrived_at - service.clock.now()).total_seconds()) < 3600
        with shardline.stream(
            "dynamodb://users", stream.token, endpoint_url=service.endpoint_url
        ) as resumed:
            assert next(resumed) is None


def test_a_shard_that_does_not_answer_holds_the_others_for_its_patience_only() -> None:
    with Service(strict=True) as service:
        orders = Orders(service.endpoint_url, "merge")
        orders.put("A1 B1")
        hanging, _ = (
            s["ShardId"] for s in orders.client.list_shards(StreamName=orders.name)["Shards"]
        )
        service.faults.add("hang", "GetRecords", shard_id=hanging)
        with shardline.stream(
            f"kinesis://{orders.name}",
            "trim_horizon",
            endpoint_url=service.endpoint_url,
            patience_seconds=0.1,
        ) as stream:
            assert [record.data for record in _drain(stream, 1)] == [b"B1"]
            token = stream.token
            assert next(stream) is None  # at once: it has been waited for long enough
            service.faults.release()
            assert [record.data for record in _drain(stream, 1)] == [b"A1"]
        with orders.stream(token) as resumed:
            take(resumed, "A1")


def _drain(stream: shardline.Stream[Any], count: int) -> list[Any]:
    """Take so many records in a `for` loop, which waits for them."""
    given = []
    for record in stream:
        given.append(record)
        if len(given) == count:
            break
    return given


@pytest.mark.req("O-02", "O-13", "O-14", "O-15", "C-12")
@pytest.mark.case("T-01", "R-11")
def test_order_while_four_writers_write_and_the_consumer_restarts(endpoint_url: str) -> None:
    orders = Orders(endpoint_url, "merge")
    keys = [f"key-{n}" for n in range(20)]
    traffic = Traffic(orders.client, orders.name, keys, writers=4).start()
    deliveries: list[tuple[int, Any]] = []
    token: dict[str, Any] | None = None
    rng = random.Random(7)
    for run in range(6):
        with orders.stream(token or "trim_horizon") as stream:
            for _ in range(1 + 40 * run):
                record = next(stream)
                if record is not None:
                    deliveries.append((run, record))
            token = stream.token
        reshard_once(orders.client, orders.name, rng)
    traffic.stop()
    with orders.stream(token) as stream:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(deliveries) < traffic.count and time.monotonic() < deadline:
            record = next(stream)
            if record is not None:
                deliveries.append((99, record))
        assert next(stream) is None
    checker = PromiseChecker()
    traffic.report_to(checker)
    for run, record in deliveries:
        ref = RecordRef(record.partition_key, int(record.sequence_number))
        checker.delivered(record.shard_id, Fence(0, run), [ref])
    verdict = checker.verdict().require()
    assert verdict.written == traffic.count == len(deliveries)
    assert verdict.repeated == 0
