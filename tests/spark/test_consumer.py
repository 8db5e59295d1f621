"""`shardline.spark.consume` in a Spark program: one session, the consumer in its tasks."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.core.fences import Fence
from shardline.core.promise import RecordRef
from shardline.errors import ConfigurationError
from shardline.leases.address import open_table
from shardline.spark.consuming import consume
from tests.spark.streams import Stream, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from shardline.local.service import Service

pytestmark = pytest.mark.timeout(900)

# Spark's Python workers have no such module: it travels with the consumer.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


@dataclass
class Noting(ShardConsumer):
    """Appends a line for each thing that it is told."""

    path: str

    def process(self, batch: ShardBatch) -> None:
        numbers = [str(record.sequence_number) for record in batch.records]
        keys = [getattr(record, "partition_key", "") for record in batch.records]
        self._note("delivered", batch.shard_id, fence=batch.fence, numbers=numbers, keys=keys)

    def shard_started(self, shard_id: str, fence: Fence) -> None:
        self._note("started", shard_id, fence=fence)

    def shard_ended(self, shard_id: str) -> None:
        self._note("ended", shard_id)

    def _note(self, what: str, shard_id: str, **more: Any) -> None:
        line = json.dumps({"what": what, "shard": shard_id, **more}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode())
        os.close(file)


def notes(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def numbers_in(path: Path) -> list[str]:
    return [number for note in notes(path) for number in note.get("numbers", ())]


@pytest.mark.req("K-08", "K-09", "K-16", "K-26", "K-29", "K-33", "K-34", "K-40", "K-41", "P-01")
@pytest.mark.case("W-18", "R-06")
def test_a_consumer_in_a_program_of_ones_own(
    stream: Stream, spark: SparkSession, tmp_path: Path
) -> None:
    path, lease_table = tmp_path / "notes", f"sqlite:///{tmp_path}/leases.db"

    def begin() -> Any:
        return consume(
            spark,
            Noting(str(path)),
            stream=f"kinesis://{stream.name}",
            app="billing",
            lease_table=lease_table,
            endpoint_url=stream.endpoint_url,
        )

    stream.put(40)
    running = begin()
    try:
        wait_until(
            lambda: len(numbers_in(path)) >= 40, "the first records came", running.query, 300
        )
        with pytest.raises(ConfigurationError, match="runs in this Spark session already"):
            begin()
        # The same worker twice, by hand: each would take the other's leases.
        loaded = stream.load(spark, appName="billing", leaseTable=lease_table)
        second = loaded.writeStream.format("noop").start()
        with pytest.raises(StreamingQueryException, match=r"already reads .* one leased load"):
            second.awaitTermination(300)
        stream.split(0)
        stream.put(40)
        wait_until(lambda: len(numbers_in(path)) >= 80, "the first one goes on", running.query, 300)

        def counted() -> bool:
            figures = running.metrics.read()
            return (figures.records, figures.held, figures.completed) == (80, 3, 1)

        wait_until(counted, "and is counted", running.query, 300)
    finally:
        stopped = running.stop()
    assert (stopped.handed_back, stopped.failure) == (True, None)
    rows = open_table(lease_table).scan_rows("billing", stream.name, None, 100).rows
    assert [r.lease_owner for r in rows] == [None] * 4
    assert sum(r.completed for r in rows) == 1

    stream.put(20)
    again = begin()
    try:
        wait_until(
            lambda: len(numbers_in(path)) >= 100, "it goes on where it was", again.query, 300
        )
    finally:
        again.stop()
    assert len(numbers_in(path)) == len(set(numbers_in(path))) == 100, "nothing was repeated"
    for shard in stream.client.list_shards(StreamName=stream.name)["Shards"]:
        parents = [shard[n] for n in ("ParentShardId", "AdjacentParentShardId") if n in shard]
        stream.checker.shard(shard["ShardId"], parents)
    for note in notes(path):
        if note["what"] == "delivered":
            refs = [
                RecordRef(k, int(n)) for k, n in zip(note["keys"], note["numbers"], strict=True)
            ]
            stream.checker.delivered(note["shard"], Fence(*note["fence"]), refs)
    verdict = stream.verdict().require()
    assert (verdict.lost, verdict.repeated, verdict.stale) == (0, 0, 0)
    for shard in {note["shard"] for note in notes(path)}:
        assert next(n["what"] for n in notes(path) if n["shard"] == shard) == "started"


@pytest.mark.req("P-03")
def test_a_consumer_of_a_tables_changes(
    service: Service, spark: SparkSession, tmp_path: Path
) -> None:
    service.tables.create_table("users", shards=2)
    path = tmp_path / "notes"
    for n in range(20):
        item = {"id": {"S": f"user-{n}"}}
        service.tables.put_change("users", item, new=item)
    running = consume(
        spark,
        Noting(str(path)),
        stream="dynamodb://users",
        app="billing",
        lease_table=f"sqlite:///{tmp_path}/leases.db",
        endpoint_url=service.endpoint_url,
    )
    try:
        wait_until(lambda: len(numbers_in(path)) >= 20, "all changes came", running.query, 300)
    finally:
        assert running.stop().handed_back
    assert len(set(numbers_in(path))) == 20
