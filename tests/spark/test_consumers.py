"""Consumers on Spark: each task is a worker; killed, they are back in their share by themselves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardline.errors import ConfigurationError
from shardline.spark import consume
from tests.spark.consumer_fixtures import CALM_SECONDS, is_local
from tests.spark.recording import Recording
from tests.spark.streams import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shardline.consumer.launch import RunningConsumer
    from tests.spark.recording import Recordings
    from tests.spark.streams import Stream


@pytest.mark.parametrize(
    "running",
    [{"lease_seconds": CALM_SECONDS}, {"lease_seconds": CALM_SECONDS, "fan_out": "billing"}],
    indirect=True,
    ids=["polled", "pushed"],
)
@pytest.mark.req("P-01", "P-02", "P-03", "O-01", "K-53", "F-02")
def test_a_consumer_through_splits_and_merges(
    stream: Stream, recordings: Recordings, running: RunningConsumer
) -> None:
    stream.put(60)
    wait_until(lambda: recordings.count() == 60, "the first records are delivered")
    for reshard in (stream.split, stream.merge, stream.split):
        reshard()
        stream.put(60)
    wait_until(lambda: recordings.count() == stream.written, "everything is delivered")
    assert running.figures().held > 0
    stopped = running.stop(30)
    assert (stopped.handed_back, stopped.failure) == (True, None)
    assert recordings.judge(stream).repeated == 0


@pytest.mark.req("P-02", "K-14")
def test_a_task_whose_process_is_killed_is_started_again(
    stream: Stream, recordings: Recordings, running: RunningConsumer
) -> None:
    stream.put(40)
    wait_until(lambda: recordings.count() == 40, "the first records are delivered")
    killed_at = time.time()
    for pid in recordings.processes():
        keeper = parent_of(pid)
        os.kill(keeper, signal.SIGKILL)
    stream.put(40)
    wait_until(lambda: recordings.count() == stream.written, "everything is delivered")
    assert recordings.processes(killed_at)
    running.stop(30)
    recordings.judge(stream)


@pytest.mark.req("O-17", "O-22")
def test_an_ephemeral_consumer_begins_at_the_latest_record_and_remembers_nothing(
    spark: SparkSession, stream: Stream, recordings: Recordings
) -> None:
    if not is_local(spark):
        pytest.skip("without a lease table it needs a local master")
    stream.put(20)
    next_second = int(time.time()) + 1
    wait_until(lambda: time.time() >= next_second, 'a later second: "latest" is one of those')
    run = consume(
        spark,
        Recording(str(recordings.folder)),
        stream=f"kinesis://{stream.name}",
        endpoint_url=stream.endpoint_url,
        ephemeral=True,
        tasks=1,
    )
    try:
        wait_until(lambda: run.figures().held == 2, "it holds the shards")
        wait_until(lambda: all(beat.held for beat in run.heartbeats()), "that is in its heartbeat")
        stream.put(20)
        wait_until(lambda: recordings.count() >= 20, "what came after is delivered")
        stream.split()
        stream.put(20)
        wait_until(lambda: recordings.count() >= 40, "the children are read from their beginning")
    finally:
        run.stop(20)
    assert recordings.count() == 40


def test_a_table_of_one_machine_is_refused_on_a_cluster(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    if is_local(spark):
        pytest.skip("for a cluster")
    with pytest.raises(ConfigurationError, match="table of one machine"):
        consume(
            spark,
            Recording(str(tmp_path)),
            stream=f"kinesis://{stream.name}",
            app="x",
            lease_table=f"sqlite:///{tmp_path}/leases.db",
            endpoint_url=stream.endpoint_url,
            tasks=1,
        )


def parent_of(pid: int) -> int:
    """Return the keeper of a runner."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
