"""Several streams in one query, and all shards of a batch in one order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import shardline
from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.errors import ShardlineError, StreamNotFound
from shardline.local.service import Service
from tests.integration.source_run import Row, SourceRun
from tests.servers.active import wait_until_active

if TYPE_CHECKING:
    from collections.abc import Iterator

HALVES = (str(2**126), str(2**127 + 2**126))
"""A hash key in each of two shards."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True) as running:
        yield running


@pytest.fixture
def kind_service() -> Iterator[Service]:
    """Not strict, it answers at once: a shard that answers late would be in a batch of its own."""
    with Service() as running:
        yield running


class Streams:
    """Streams of two shards each, whose shards have the same ids."""

    def __init__(self, service: Service, *names: str) -> None:
        self.client: Any = service.client("kinesis")
        self.endpoint_url = service.endpoint_url
        self.checkers = {name: PromiseChecker() for name in names}
        for name in names:
            self.client.create_stream(StreamName=name, ShardCount=2)
            wait_until_active(self.client, name)

    def put(self, name: str, count: int) -> None:
        for n in range(count):
            answer = self.client.put_record(
                StreamName=name,
                PartitionKey=f"{name}-{n % 2}",
                ExplicitHashKey=HALVES[n % 2],
                Data=f"{name} {n}".encode(),
            )
            record = RecordRef(f"{name}-{n % 2}", int(answer["SequenceNumber"]))
            self.checkers[name].wrote(answer["ShardId"], record)

    def run(self, names: str, log: list[str] | None = None, **options: str) -> SourceRun:
        given = {"streamName": names, "endpointUrl": self.endpoint_url}
        return SourceRun("kinesis", given | {"startingPosition": "trim_horizon"} | options, log)

    def delivered(self, rows: list[Row], batch: int) -> None:
        for row in rows:
            assert row["data"].startswith(row["stream"].encode())
            record = RecordRef(row["partitionKey"], int(row["sequenceNumber"]))
            self.checkers[row["stream"]].delivered(row["shardId"], Fence(0, batch), [record])

    def require(self) -> None:
        for checker in self.checkers.values():
            verdict = checker.verdict().require()
            assert (verdict.lost, verdict.repeated) == (0, 0)


def require_batches_of(expected: list[Any], batches: list[list[Any]]) -> None:
    """Check that each batch is in the order of the whole, and that all of it came once."""
    place = {value: number for number, value in enumerate(expected)}
    found = [[place[value] for value in batch] for batch in batches]
    assert all(numbers == sorted(numbers) for numbers in found)
    assert sorted(itertools.chain.from_iterable(found)) == list(range(len(expected)))


def test_each_stream_of_a_query_is_planned_by_itself_and_replayed_alike(service: Service) -> None:
    streams = Streams(service, "a", "b")
    streams.put("a", 30)
    streams.put("b", 7)
    with streams.run("a, b", maxRecordsPerBatch="10") as run:
        read = [[row for part in batch for row in part] for batch in run.batches()]
    assert max(len(rows) for rows in read) <= 10
    for number, rows in enumerate(read):
        streams.delivered(rows, number)
    streams.require()
    with streams.run("a, b", run.log, maxRecordsPerBatch="10") as again:
        replayed = [[r for part in again.rows(n) for r in part] for n in range(len(read))]
        key = lambda row: (row["stream"], row["shardId"], int(row["sequenceNumber"]))  # noqa: E731
        for before, after in zip(read, replayed, strict=True):
            assert sorted(before, key=key) == sorted(after, key=key)
        streams.put("b", 0)
        assert list(again.batches()) == []


def test_a_stream_can_join_a_query_but_not_leave_it(service: Service) -> None:
    streams = Streams(service, "a", "b")
    streams.put("a", 5)
    streams.put("b", 5)
    with streams.run("a") as run:
        for number, batch in enumerate(run.batches()):
            streams.delivered([row for part in batch for row in part], number)
    with streams.run("b,a", run.log) as more:
        for number, batch in enumerate(more.batches(), 100):
            streams.delivered([row for part in batch for row in part], number)
    streams.require()
    with streams.run("b", more.log) as fewer, pytest.raises(ShardlineError, match="is of a too"):
        list(fewer.batches())


def test_a_stream_that_is_missing_is_one_line(service: Service) -> None:
    streams = Streams(service, "a")
    streams.put("a", 1)
    with streams.run("a,nowhere") as run, pytest.raises(StreamNotFound, match="nowhere") as error:
        list(run.batches())
    assert "\n" not in str(error.value)


@pytest.mark.req("P-05", "C-25")
def test_total_order_is_that_of_the_iterator(kind_service: Service) -> None:
    service = kind_service
    streams = Streams(service, "a")
    streams.put("a", 200)
    with streams.run("a", order="total") as run:
        batches = [batch for batch in run.batches() if batch]
        numbers = [number for number in range(len(run.log) - 1) if run.rows(number)]
    with streams.run("a", run.log, order="total") as again:
        assert [again.rows(number) for number in numbers] == batches
    assert [len(batch) for batch in batches] == [1] * len(batches)
    read = [[row["data"] for row in part] for (part,) in batches]
    with shardline.stream("kinesis://a", "trim_horizon", endpoint_url=service.endpoint_url) as all_:
        expected = [record.data for record in itertools.islice(all_, 200)]
    require_batches_of(expected, read)
    assert max(len({row["shardId"] for row in part}) for (part,) in batches) == 2


@pytest.mark.req("P-05")
def test_total_order_of_a_table_s_changes(kind_service: Service) -> None:
    service = kind_service
    service.tables.create_table("users", shards=3)
    for n in range(60):
        keys: Any = {"id": {"S": f"user-{n % 9}"}}
        service.tables.put_change("users", keys, new=keys)
    given = {"tableName": "users", "endpointUrl": service.endpoint_url, "order": "total"}
    with SourceRun("dynamodb-streams", given | {"startingPosition": "trim_horizon"}) as run:
        batches = run.until(60)
    assert [len(batch) for batch in batches] == [1] * len(batches)
    read = [[row["sequenceNumber"] for row in part] for (part,) in batches]
    with shardline.stream(
        "dynamodb://users", "trim_horizon", endpoint_url=service.endpoint_url
    ) as changes:
        expected = [change.sequence_number for change in itertools.islice(changes, 60)]
    require_batches_of(expected, read)
    assert max(len({row["shardId"] for row in part}) for (part,) in batches) > 1
