"""A long backlog is read in bounded batches, in flat memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.backlog import NAME, served_backlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 1_000_000
SHARDS = 5
MOST = 50_000
MOST_GROWTH = 1.25
"""Workers that kept what they read would double."""


def python_bytes(jvm: int) -> dict[int, int]:
    """Return the resident memory of every Python process below Spark's, by its id."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            status = (process / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines())
        pid = int(process.name)
        parents[pid] = int(fields["PPid"])
        if fields["Name"].strip().startswith("python"):
            sizes[pid] = int(fields.get("VmRSS", "0 kB").split()[0]) * 1024

    def below_spark(pid: int) -> bool:
        while pid in parents and pid != jvm:
            pid = parents[pid]
        return pid == jvm

    return {pid: size for pid, size in sizes.items() if below_spark(pid)}


@pytest.mark.timeout(600)  # half a minute, on a machine that does nothing else
def test_a_million_records_come_in_bounded_batches_and_flat_memory(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm = int(spark.sparkContext._jvm.ProcessHandle.current().pid())  # type: ignore[union-attr]
    counts: list[int] = []
    sizes: dict[int, list[int]] = {}

    def received(batch: DataFrame, _: int) -> None:
        counts.append(batch.count())
        for pid, size in python_bytes(jvm).items():
            sizes.setdefault(pid, []).append(size)

    with served_backlog(RECORDS, SHARDS) as endpoint_url:
        query = (
            spark.readStream.format("kinesis")
            .option("streamName", NAME)
            .option("endpointUrl", endpoint_url)
            .option("startingPosition", "trim_horizon")
            .option("maxRecordsPerBatch", str(MOST))
            .load()
            .writeStream.foreachBatch(received)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(500), "it did not end"
    assert sum(counts) == RECORDS
    assert max(counts) <= MOST
    quarter = len(counts) // 4
    lasting = [seen for seen in sizes.values() if len(seen) > 2 * quarter]
    assert len(lasting) >= 3, "the source, and the workers with their parent"
    for seen in lasting:
        assert max(seen[-quarter:]) < MOST_GROWTH * max(seen[:quarter]), seen
