"""A consumer over Spark Connect; run by `make test-versions ONLY=connect`, which installs it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from shardline.local import Service
from shardline.spark import consume
from tests.spark.recording import Recording, Recordings
from tests.spark.streams import Stream, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

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
