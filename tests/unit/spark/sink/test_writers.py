"""What a task does with its partition, without Spark around it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shardline.errors import Throttled
from shardline.local import Service
from shardline.services.access import Access
from shardline.spark.options import Connection
from shardline.spark.sink.options import Sink
from shardline.spark.sink.writers import PartitionWritten, RowWriter, StreamRowWriter

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(strict=True) as running:
        client = running.client("kinesis")
        client.create_stream(StreamName="orders", ShardCount=1)
        client.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
        client.close()
        yield running


def sink_of(service: Service, give_up_seconds: float = 120.0) -> Sink:
    connection = Connection("kinesis://orders", Access(endpoint_url=service.endpoint_url))
    return Sink(connection, False, (), give_up_seconds, has_hash_keys=False)


def batches(count: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        keys = ["a", "b"] * 10
        yield pa.RecordBatch.from_pydict({"partitionKey": keys, "data": [b"%d" % number] * 20})


@pytest.mark.parametrize("kind", [RowWriter, StreamRowWriter])
def test_a_writer_travels_to_a_task_and_reports_what_it_wrote(
    service: Service, kind: type[RowWriter | StreamRowWriter]
) -> None:
    service.faults.add("throttle", "PutRecords", times=3)
    writer = pickle.loads(pickle.dumps(kind(sink_of(service))))  # noqa: S301
    assert writer.write(batches(3)) == PartitionWritten(60, 3)
    assert writer.write(iter(())) == PartitionWritten(0, 0)


@pytest.mark.req("S-03")
def test_a_partition_that_cannot_be_written_fails_its_task_and_a_later_one_starts_anew(
    service: Service,
) -> None:
    service.faults.add("throttle", "PutRecords", times=None)
    with pytest.raises(Throttled, match="give the stream more shards"):
        RowWriter(sink_of(service, 0.2)).write(batches(1))
    service.faults.clear()
    assert RowWriter(sink_of(service)).write(batches(1)).records == 20
