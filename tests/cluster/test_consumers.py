"""Consumers on a cluster: its executors and its driver are killed, and the work goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardline.spark import consume
from tests.spark.consumer_fixtures import LEASE_SECONDS
from tests.spark.recording import Recording
from tests.spark.streams import wait_until
from tests.spark.test_consumers import (
    test_a_consumer_through_splits_and_merges,
    test_a_table_of_one_machine_is_refused_on_a_cluster,
    test_a_task_whose_process_is_killed_is_started_again,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from shardline.consumer.launch import RunningConsumer
    from tests.spark.cluster import Cluster
    from tests.spark.recording import Recordings
    from tests.spark.streams import Stream

__all__ = [
    "test_a_consumer_through_splits_and_merges",
    "test_a_table_of_one_machine_is_refused_on_a_cluster",
    "test_a_task_whose_process_is_killed_is_started_again",
]

ROOT = Path(__file__).parents[2]


@pytest.mark.req("P-02", "K-11", "K-14")
def test_an_executor_that_is_killed_is_replaced_and_its_shards_are_read_on(
    spark_cluster: Cluster, stream: Stream, recordings: Recordings, running: RunningConsumer
) -> None:
    stream.put(40)
    wait_until(lambda: recordings.count() == 40, "the first records are delivered")
    killed_at = time.time()
    for pid in spark_cluster.executors():
        os.kill(pid, signal.SIGKILL)
    stream.split()
    stream.put(40)
    wait_until(lambda: recordings.count() == stream.written, "everything is delivered")
    assert recordings.processes(killed_at)
    running.stop(30)
    recordings.judge(stream)


@pytest.mark.req("P-02", "K-10", "K-11")
def test_the_tasks_of_a_driver_that_is_killed_end_and_another_launch_goes_on(
    spark: SparkSession,
    spark_cluster: Cluster,
    stream: Stream,
    recordings: Recordings,
    lease_table: str,
    tmp_path: Path,
) -> None:
    stream.put(40)
    arguments = [stream.endpoint_url, stream.name, lease_table, str(recordings.folder)]
    with _driver(spark_cluster.master_url, *arguments, log=tmp_path / "driver.log") as driver:
        wait_until(lambda: recordings.count() == 40, "the first records are delivered")
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    runners = recordings.processes()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in runners), "tasks end")
    stream.merge()
    stream.put(40)
    run = consume(
        spark,
        Recording(str(recordings.folder)),
        stream=f"kinesis://{stream.name}",
        app=f"app of {stream.name}",
        lease_table=lease_table,
        endpoint_url=stream.endpoint_url,
        lease_seconds=LEASE_SECONDS,
        tasks=1,
        expect_app=True,
    )
    try:
        wait_until(lambda: recordings.count() == stream.written, "everything is delivered")
    finally:
        run.stop(30)
    recordings.judge(stream)


@contextmanager
def _driver(*arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a driver of its own, in a process group of its own."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.driver", *arguments],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
