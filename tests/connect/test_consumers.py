"""A consumer over Spark Connect; run by `make test-versions ONLY=connect`, which installs it."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from shardline.leases.address import open_table
from shardline.local import Service
from shardline.spark import consume
from tests.readme import readme_consumer
from tests.spark.recording import Recording, Recordings
from tests.spark.streams import Stream, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from shardline.core.positions import Position

pytest.importorskip("grpc", reason="Spark Connect is not installed")


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    monkeypatch.setitem(os.environ, "PYSPARK_PYTHON", sys.executable)
    running = SparkSession.builder.remote("local[2]").getOrCreate()
    yield running
    running.stop()


@pytest.mark.req("P-01")
def test_workers_run_in_tasks_of_a_connect_server(spark: SparkSession, tmp_path: Path) -> None:
    with Service(strict=True) as service:
        stream = Stream(service.client("kinesis"), service.endpoint_url, "orders")
        stream.put(60)
        running = consume(
            spark,
            Recording(str(tmp_path)),
            stream="kinesis://orders",
            app="billing",
            lease_table=f"sqlite:///{tmp_path}/leases.db",
            endpoint_url=stream.endpoint_url,
            tasks=2,
        )
        recordings = Recordings(tmp_path)
        wait_until(lambda: recordings.count() == 60, "everything is delivered")
        assert running.stop(30).handed_back
        assert recordings.judge(stream).repeated == 0


def test_the_consumer_of_the_readme(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints goes to the server's output: that it has processed all shows in its leases."""
    (tmp_path / "billing.py").write_text(readme_consumer())
    monkeypatch.syspath_prepend(tmp_path)
    billing = importlib.import_module("billing")
    address = f"sqlite:///{tmp_path}/leases.db"
    with Service(strict=True) as service:
        stream = Stream(service.client("kinesis"), service.endpoint_url, "orders")
        last = {}
        for n in range(20):
            put = stream.client.put_record(StreamName="orders", PartitionKey=f"{n}", Data=b"%d" % n)
            last[put["ShardId"]] = After(SequenceNumber(put["SequenceNumber"]))
        running = consume(
            spark,
            billing.Billing(),
            stream="kinesis://orders",
            app="billing",
            lease_table=address,
            endpoint_url=stream.endpoint_url,
            tasks=2,
        )
        with closing(open_table(address)) as table:

            def checkpoints() -> dict[str, Position]:
                rows = table.scan_rows("billing", "orders", None, 10).rows
                return {row.shard_id: row.checkpoint for row in rows}

            wait_until(lambda: checkpoints() == last, "every record is acknowledged")
        assert running.stop(30).handed_back
