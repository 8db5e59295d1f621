"""Records per second, counted over HTTP from the embedded service."""

from __future__ import annotations

from shardline.local import Service
from shardline.observation.meter import Meter
from shardline.observation.watch import LiveWatch
from shardline.services.access import Access
from shardline.services.connection import connect


def test_a_meter_counts_what_arrives_between_two_snapshots() -> None:
    with Service() as service:  # not strict: single listings are compared
        service.create_stream("orders", 2)
        kinesis = service.client()

        def put(count: int, hash_key: int) -> None:
            for _ in range(count):
                kinesis.put_record(
                    StreamName="orders", PartitionKey="k", ExplicitHashKey=str(hash_key), Data=b"x"
                )

        stream = connect("kinesis://orders", Access(endpoint_url=service.endpoint_url))
        meter = Meter(stream)
        now = [1000.0]
        watch = LiveWatch("kinesis://orders", stream, meter=meter, clock=lambda: now[0])
        put(5, 0)  # before the first snapshot: not counted
        assert [s.records_per_second for s in watch.snapshot().shards] == [None, None]
        put(20, 0)
        put(4, 2**128 - 1)
        now[0] += 2
        assert [s.records_per_second for s in watch.snapshot().shards] == [10.0, 2.0]
        now[0] += 2
        assert [s.records_per_second for s in watch.snapshot().shards] == [5.0, 1.0]
        meter.close()
        stream.close()


def test_a_shard_that_closes_is_no_longer_measured() -> None:
    with Service() as service:  # not strict: single listings are compared
        service.create_stream("orders", 1)
        stream = connect("kinesis://orders", Access(endpoint_url=service.endpoint_url))
        meter = Meter(stream)
        meter.count(stream.list_shards(), 0)
        (first,) = stream.list_shards()
        service.client().split_shard(
            StreamName="orders", ShardToSplit=first.id, NewStartingHashKey=str(2**127)
        )
        meter.count(stream.list_shards(), 2)
        assert set(meter.count(stream.list_shards(), 4)) == {
            "shardId-000000000001",
            "shardId-000000000002",
        }
        meter.close()
        stream.close()
