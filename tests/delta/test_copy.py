"""The recipe of a copy in Delta; run by `make test-versions ONLY=delta`, which installs it."""

from __future__ import annotations

import random
import runpy
import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shardline
from shardline.local import Service
from shardline.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytest.importorskip("delta", reason="delta-spark is not installed")

RECIPE = Path(__file__).parents[2] / "docs/examples/delta_copy.py"


OF_SPARK = (
    *("org.apache.hadoop", "org.apache.parquet", "org.apache.logging.log4j", "org.slf4j"),
    *("com.fasterxml.jackson.core", "com.fasterxml.jackson.datatype", "org.scala-lang"),
    *("org.roaringbitmap", "org.xerial.snappy", "io.airlift", "commons-pool", "commons-logging"),
    *("com.github.luben", "io.unitycatalog"),
)
"""What Delta asks for and Spark has already, or is not needed here."""


DEADLINE_SECONDS = 240


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    delta, spark = version("delta-spark"), version("pyspark").rpartition(".")[0]
    running = session(
        "delta",
        "local[2]",
        spark__jars__packages=f"io.delta:delta-spark_{spark}_2.13:{delta}",
        spark__jars__excludes=",".join(f"{group}:*" for group in OF_SPARK),
        spark__sql__extensions="io.delta.sql.DeltaSparkSessionExtension",
        spark__sql__catalog__spark_catalog="org.apache.spark.sql.delta.catalog.DeltaCatalog",
        spark__databricks__delta__snapshotPartitions="1",
    )
    running.sparkContext.setLogLevel("ERROR")
    yield running
    running.stop()


@pytest.mark.timeout(900)  # its jars are loaded from a registry first, and Delta is slow to start
def test_the_copy_equals_the_table_through_writes_deletes_and_reshards(
    spark: SparkSession, tmp_path: Path
) -> None:
    recipe: dict[str, Any] = runpy.run_path(str(RECIPE))
    User = recipe["User"]  # noqa: N806
    rng = random.Random(3)
    stored: dict[uuid.UUID, Any] = {}
    ids = [uuid.UUID(int=rng.getrandbits(128)) for _ in range(40)]
    with (
        Service(strict=True) as service,
        shardline.Engine(endpoint_url=service.endpoint_url) as engine,
    ):
        engine.bind(User)

        def write(count: int) -> None:
            for n in range(count):
                user_id = rng.choice(ids)
                if user_id in stored and rng.random() < 0.4:
                    engine.delete(stored.pop(user_id))
                else:
                    stored[user_id] = User(id=user_id, email=f"{n}@x.org", verified=n % 2 == 0)
                    engine.save(stored[user_id])

        def open_shards() -> list[str]:
            now_ms = service.clock.now_ms()
            listed = service.tables.find_stream("users", now_ms).listed(now_ms)
            return [shard.id for shard in listed if shard.last is None]

        def start() -> Any:
            return recipe["copy_users"](
                spark,
                str(tmp_path / "copy"),
                str(tmp_path / "checkpoint"),
                trigger={"processingTime": "0 seconds"},
                endpointUrl=service.endpoint_url,
                snapshotSegments="2",
            )

        def await_equal(query: Any) -> None:
            wanted = sorted((str(u.id), u.email, u.verified) for u in stored.values())
            copied: list[Any] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while copied != wanted:
                assert time.monotonic() < deadline, f"{len(copied)} of {len(wanted)} items"
                assert query.isActive, query.exception()
                rows = spark.read.format("delta").load(str(tmp_path / "copy")).collect()
                copied = sorted((row.id, row.email, row.verified) for row in rows)

        write(60)
        query = start()
        await_equal(query)
        for act in (service.tables.split, service.tables.roll):
            write(20)
            act("users", open_shards()[0])
        write(20)
        await_equal(query)
        query.stop()
        write(20)
        service.tables.split("users", open_shards()[0])
        write(20)
        query = start()
        await_equal(query)
        query.stop()
