"""A stream that tests write to and reshard, and a query on it; a checker is told of everything."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEADLINE_SECONDS = 180.0

SERVERS = pytest.mark.parametrize("on", ["stream", "foreign_stream"])
"""Our own service, and one that others wrote."""


def kinesis_client(endpoint_url: str) -> Any:
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106
    )


def wait_until(
    happened: Callable[[], bool],
    what: str,
    query: StreamingQuery | None = None,
    seconds: float = DEADLINE_SECONDS,
) -> None:
    """Wait for a condition; fail with its name, or at once with the query's own error."""
    deadline = time.monotonic() + seconds
    while not happened():
        if query is not None and not query.isActive:
            raise AssertionError(f"the query ended before {what}: {query.exception()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.05)


class Stream:
    """A stream of two shards, and what was put into it."""

    def __init__(self, client: Any, endpoint_url: str, name: str, shards: int = 2) -> None:
        self.client = client
        self.endpoint_url = endpoint_url
        self.name = name
        self.checker = PromiseChecker()
        self.written = 0
        self._shards_made = shards
        self._lock = threading.Lock()
        client.create_stream(StreamName=name, ShardCount=shards)
        self._wait_active()

    def put(self, count: int, keys: int = 12) -> None:
        """Write records, each key's in turn, one by one so that their order is certain."""
        for _ in range(count):
            self._put(f"key-{self.written % keys}")

    def put_everywhere(self) -> None:
        """Write a record to every open shard."""
        for shard in self.open_shards():
            start = shard["HashKeyRange"]["StartingHashKey"]
            self._put(f"from-{start}", ExplicitHashKey=start)

    def _put(self, key: str, **more: str) -> None:
        with self._lock:
            data = f"{self.written}".encode()
            answer = self.client.put_record(
                StreamName=self.name, PartitionKey=key, Data=data, **more
            )
            record = RecordRef(key, int(answer["SequenceNumber"]))
            self.checker.wrote(answer["ShardId"], record)
            self.written += 1

    def split(self, choice: int = 0) -> None:
        shard = self.open_shards()[choice]
        low, high = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        self.client.split_shard(
            StreamName=self.name,
            ShardToSplit=shard["ShardId"],
            NewStartingHashKey=str((low + high) // 2 + 1),
        )
        self._shards_made += 2
        self._wait_active()

    def merge(self, choice: int = 0) -> None:
        shards = self.open_shards()
        self.client.merge_shards(
            StreamName=self.name,
            ShardToMerge=shards[choice]["ShardId"],
            AdjacentShardToMerge=shards[choice + 1]["ShardId"],
        )
        self._shards_made += 1
        self._wait_active()

    def open_shards(self) -> list[dict[str, Any]]:
        return sorted(
            (s for s in self.shards() if "EndingSequenceNumber" not in s["SequenceNumberRange"]),
            key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]),
        )

    def load(self, spark: SparkSession, start: str = "trim_horizon", **options: str) -> DataFrame:
        reader = spark.readStream.format("kinesis").option("streamName", self.name)
        reader = reader.option("endpointUrl", self.endpoint_url).option("startingPosition", start)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    def delivered(self, rows: list[Row], fence: Fence) -> None:
        """Tell the checker of a batch: each shard's rows as they came."""
        by_shard: dict[str, list[RecordRef]] = {}
        for row in rows:
            record = RecordRef(row.partitionKey, int(row.sequenceNumber))
            by_shard.setdefault(row.shardId, []).append(record)
        self.know_shards()
        with self._lock:
            for shard_id, records in sorted(by_shard.items()):
                self.checker.delivered(shard_id, fence, records)

    def know_shards(self) -> None:
        """Tell the checker which shards there are, and their parents."""
        with self._lock:
            for shard in self.shards():
                names = ("ParentShardId", "AdjacentParentShardId")
                self.checker.shard(shard["ShardId"], [shard[n] for n in names if shard.get(n)])

    def verdict(self) -> Verdict:
        with self._lock:
            return self.checker.verdict()

    def shards(self) -> list[dict[str, Any]]:
        """Return a listing that is not stale: one that has every shard that was made."""
        listed: list[dict[str, Any]] = []

        def is_whole() -> bool:
            listed[:] = self.client.list_shards(StreamName=self.name)["Shards"]
            return len(listed) >= self._shards_made

        wait_until(is_whole, f"every shard of {self.name} is listed")
        return listed

    def _wait_active(self) -> None:
        wait_until(
            lambda: (
                self.client.describe_stream_summary(StreamName=self.name)[
                    "StreamDescriptionSummary"
                ]["StreamStatus"]
                == "ACTIVE"
            ),
            f"{self.name} is active",
        )


class Consumer:
    """A query that tells the checker what each batch brought; it can be stopped and begun again."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        self.stream = stream
        self.checkpoint = checkpoint
        self.batches: list[list[Row]] = []
        self._attempt = 0

    def start(self, rows: DataFrame, **trigger: Any) -> StreamingQuery:
        self._attempt += 1
        attempt = self._attempt
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint))
        if trigger:
            writer = writer.trigger(**trigger)

        def received(batch: DataFrame, batch_id: int) -> None:
            came = batch.collect()
            self.stream.delivered(came, Fence(0, batch_id * 100 + attempt))
            self.batches.append(came)

        return writer.foreachBatch(received).start()

    def run(self, rows: DataFrame, **trigger: Any) -> None:
        """Run a query that ends by itself."""
        query = self.start(rows, **(trigger or {"availableNow": True}))
        assert query.awaitTermination(int(DEADLINE_SECONDS)), "the query did not end"

    def has_all(self) -> bool:
        return self.stream.verdict().lost == 0

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]
