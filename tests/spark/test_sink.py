"""Rows into a stream, through Spark: in order for each key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PythonException

from tests.spark.copy_program import start_copy
from tests.spark.copy_reader import MOST_DELIVERIES, RESULTS, count, open_results
from tests.spark.streams import Stream, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from shardline.local.service import Service

LONG_SECONDS = 250
"""A program with a Spark session of its own takes half a minute, and more on a busy machine."""


def written(stream: Stream) -> list[tuple[str, bytes]]:
    """Return every record of a stream: those of a parent before those of its children."""
    return [each for shard in stream.shards() for each in written_to(stream, shard["ShardId"])]


def written_to(stream: Stream, shard_id: str) -> list[tuple[str, bytes]]:
    """Return every record of a shard."""
    found: list[tuple[str, bytes]] = []
    place = {"StreamName": stream.name, "ShardId": shard_id}
    first = stream.client.get_shard_iterator(**place, ShardIteratorType="TRIM_HORIZON")
    page: dict[str, Any] = {"NextShardIterator": first["ShardIterator"]}
    while page.get("NextShardIterator") and page.get("MillisBehindLatest", 1):
        page = stream.client.get_records(ShardIterator=page["NextShardIterator"])
        found += [(each["PartitionKey"], each["Data"]) for each in page["Records"]]
    return found


def of_key(records: list[tuple[str, bytes]], key: str) -> list[bytes]:
    return [data for each, data in records if each == key]


def save(rows: DataFrame, stream: Stream, form: str = "kinesis", **options: str) -> None:
    writer = rows.write.format(form).option("endpointUrl", stream.endpoint_url)
    writer.options(**{"streamName": stream.name, **options}).mode("append").save()


@pytest.mark.req("S-09")
@pytest.mark.parametrize("form", ["kinesis", "shardline-kinesis"])
def test_rows_of_a_key_within_a_partition_are_written_in_their_order(
    spark: SparkSession, service: Service, stream: Stream, form: str
) -> None:
    service.faults.add("throttle", "PutRecords", times=200, probability=0.4)
    rows = spark.range(0, 900, 1, 3).selectExpr(
        "concat('p', spark_partition_id(), '-', id % 7) partitionKey",
        "cast(id as string) data",
        "if(id % 7 = 0, '0', null) explicitHashKey",
    )
    save(rows, stream, form)
    found = written(stream)
    assert len(found) == 900
    for row in rows.select("partitionKey").distinct().collect():
        numbers = [int(data) for data in of_key(found, row.partitionKey)]
        assert numbers == sorted(set(numbers))
    first = [s for s in stream.open_shards() if s["HashKeyRange"]["StartingHashKey"] == "0"]
    keys = {key for key, _ in written_to(stream, first[0]["ShardId"])}
    assert {f"p{n}-0" for n in range(3)} <= keys


@pytest.mark.req("S-09", "S-03")
def test_mistakes_are_named_in_one_line(
    spark: SparkSession, service: Service, stream: Stream
) -> None:
    rows = spark.range(3).selectExpr("'a' partitionKey", "cast(id as string) data")
    with pytest.raises(AnalysisException, match="did you mean aggregation"):
        save(rows, stream, agregation="kpl")
    with pytest.raises(AnalysisException, match="no place for column id"):
        save(rows.selectExpr("*", "1 as id"), stream)
    service.faults.add("throttle", "PutRecords", times=None)
    with pytest.raises(PythonException, match="give the stream more shards") as caught:
        save(rows.coalesce(1), stream, giveUpAfter="200ms")
    assert "Traceback" not in str(caught.value)


@pytest.mark.req("S-08")
def test_a_query_packs_what_it_writes(
    spark: SparkSession, service: Service, stream: Stream, tmp_path: Path
) -> None:
    target = Stream(stream.client, stream.endpoint_url, f"{stream.name}-copy", shards=1)
    stream.put(300, keys=3)
    query = (
        stream.load(spark)
        .select("partitionKey", "data")
        .writeStream.format("kinesis")
        .options(streamName=target.name, endpointUrl=stream.endpoint_url, aggregation="kpl")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert len(written(target)) < 100
    copied = spark.read.format("kinesis").options(
        streamName=target.name, endpointUrl=target.endpoint_url, startingPosition="trim_horizon"
    )
    rows = copied.load().collect()
    for key in range(3):
        texts = [int(row.data) for row in rows if row.partitionKey == f"key-{key}"]
        assert texts == list(range(key, 300, 3))


@pytest.mark.timeout(1000)
@pytest.mark.req("S-09", "S-10")
def test_a_task_and_a_query_killed_repeat_only_what_a_reader_can_drop(
    spark: SparkSession, service: Service, stream: Stream, tmp_path: Path
) -> None:
    """Each kill comes when the service has accepted some records of a batch, and refuses others."""
    target = Stream(stream.client, stream.endpoint_url, f"{stream.name}-copy")
    stream.put(480)
    places = [stream.endpoint_url, stream.name, target.name, str(tmp_path / "checkpoint")]
    in_task = service.faults.add("throttle", "PutRecords", times=None, after=100)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.copy_program", *places],
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    try:
        wait_until(lambda: in_task.after == 0, "a batch is under way", seconds=LONG_SECONDS)
        kill_task_workers(process.pid)
        in_query = service.faults.add("throttle", "PutRecords", times=None, after=200)
        in_task.times = 1
        wait_until(
            lambda: in_query.after == 0 or process.poll() is not None, "a later one", seconds=200
        )
        repeated = repeats(target)
        assert repeated > 0, "the task was not tried again"
        assert process.poll() is None
    finally:
        kill_everything(process.pid)
        process.wait()
    service.faults.clear()
    stream.split()
    target.split()
    stream.put(60)
    query = start_copy(spark, *places)
    assert query.awaitTermination(LONG_SECONDS), "the query did not end"
    assert repeats(target) > repeated, "the batch was not run again"

    with closing(open_results(str(tmp_path / "results.db"))) as results:
        read_copy(target, tmp_path, lambda: count(results, "deliveries") == 4, most_deliveries=4)
        read_copy(target, tmp_path, lambda: count(results, "kept") == 540)
        (((delivered,),), kept) = (
            results.execute("select sum(records) from deliveries"),
            results.execute("select key, text from kept order by rowid").fetchall(),
        )
    assert delivered > len(written(target)), "the consumer was killed, and nothing came again"
    for n in range(12):
        assert [int(text) for key, text in kept if key == f"key-{n}"] == list(range(n, 540, 12))


def read_copy(
    target: Stream, folder: Path, done: Callable[[], bool], most_deliveries: int = 1000
) -> None:
    """Run a consumer of the copy, and kill it when it is done."""
    reader = subprocess.Popen(
        [
            *(sys.executable, "-m", "shardline", "run", "tests.spark.copy_reader:CopyReader"),
            *("--engine", "process", "--stream", f"kinesis://{target.name}", "--app", "reader"),
            *("--endpoint-url", target.endpoint_url, "--lease-seconds", "3"),
            *("--lease-table", f"sqlite:///{folder}/leases.db", "--batch-records", "20"),
        ],
        cwd=Path(__file__).parents[2],
        env={
            **os.environ,
            RESULTS: str(folder / "results.db"),
            MOST_DELIVERIES: str(most_deliveries),
        },
        start_new_session=True,
    )
    try:
        wait_until(done, "the consumer is done", seconds=LONG_SECONDS)
    finally:
        kill_everything(reader.pid)
        reader.wait()


def processes(session: int) -> dict[int, tuple[int, str]]:
    """Return the processes of a session: of each its parent and its command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if os.getsid(int(entry.name)) == session:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(entry.name)] = (parent, (entry / "cmdline").read_text())
    return found


def kill_task_workers(session: int) -> None:
    """Kill the Python workers of Spark's tasks: what its daemon forked."""
    daemons = {n: parent for n, (parent, line) in processes(session).items() if "daemon" in line}
    forked = [number for number, parent in daemons.items() if parent in daemons]
    assert forked, "no task runs"
    for number in forked:
        os.kill(number, signal.SIGKILL)


def kill_everything(session: int) -> None:
    for number in processes(session):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def repeats(stream: Stream) -> int:
    """Return how many records are in the stream that were in it already."""
    found = [(key, json.loads(data)["sequenceNumber"]) for key, data in written(stream)]
    return len(found) - len(set(found))
