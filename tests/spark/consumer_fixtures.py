"""A consumer that runs on Spark with a lease table that its tasks reach, and what it recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.spark import consume
from tests.spark.recording import Recording, Recordings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from shardline.consumer.launch import RunningConsumer
    from tests.servers import Database
    from tests.spark.streams import Stream

LEASE_SECONDS = 4.0
CALM_SECONDS = 12.0
"""The lease of workers of which nothing may be repeated: a busy machine may hold one up for 4 s."""


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    folder = tmp_path / "recordings"
    folder.mkdir()
    return Recordings(folder)


@pytest.fixture
def lease_table(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A table that every executor reaches."""
    if is_local(spark):
        return f"sqlite:///{tmp_path}/leases.db"
    postgres: Database = request.getfixturevalue("postgresql")
    return postgres.dsn


@pytest.fixture
def running(
    spark: SparkSession,
    stream: Stream,
    recordings: Recordings,
    lease_table: str,
    request: pytest.FixtureRequest,
) -> Iterator[RunningConsumer]:
    options = {"lease_seconds": LEASE_SECONDS} | getattr(request, "param", {})
    run = consume(
        spark,
        Recording(str(recordings.folder)),
        stream=f"kinesis://{stream.name}",
        app=f"app of {stream.name}",
        lease_table=lease_table,
        endpoint_url=stream.endpoint_url,
        tasks=2,
        **options,
    )
    yield run
    run.stop(10)


def is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")
