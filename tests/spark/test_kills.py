"""Kill -9 at the worst moments: nothing is lost, and an idempotent sink has everything once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from shardline.core.fences import Fence
from shardline.core.promise import RecordRef
from tests.spark.cluster import cluster
from tests.spark.streams import Stream, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LONG_SECONDS = 400
"""A program with a Spark session of its own takes half a minute, and more on a busy machine."""


@contextmanager
def program(
    stream: Stream, folder: Path, kill_at: int = -1, master: str = "local[2]"
) -> Iterator[subprocess.Popen[str]]:
    """Run the driver program in a process group of its own."""
    command = [sys.executable, "-m", "tests.spark.program", master, stream.endpoint_url]
    command += [stream.name, str(folder / "checkpoint"), str(folder / "output"), str(kill_at)]
    with (folder / "program.log").open("a") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, text=True, start_new_session=True
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(stream: Stream, folder: Path, kill_at: int = -1, master: str = "local[2]") -> int:
    with program(stream, folder, kill_at, master) as process:
        return process.wait(timeout=LONG_SECONDS)


def judge(stream: Stream, folder: Path) -> None:
    """The output holds exactly what was put, once, each key in order, parents before children."""
    stream.know_shards()
    for batch in sorted((folder / "output").iterdir(), key=lambda p: int(p.name.split("=")[1])):
        rows = pq.read_table(batch).to_pylist()
        number = int(batch.name.split("=")[1])
        for row in sorted(rows, key=lambda row: int(row["sequenceNumber"])):
            record = RecordRef(row["partitionKey"], int(row["sequenceNumber"]))
            stream.checker.delivered(row["shardId"], Fence(0, number), [record])
    verdict = stream.verdict().require()
    assert (verdict.delivered, verdict.repeated) == (stream.written, 0)


def wait_for_a_batch(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait until the program has written a batch; fail at once with its last words if it ended."""
    log = folder / "program.log"

    def written() -> bool:
        said = log.read_text()
        assert process.poll() is None, f"the program ended: {said[-2000:]}"
        return "wrote " in said

    wait_until(written, "a batch is written", seconds=LONG_SECONDS)


def in_flight(checkpoint: Path) -> bool:
    """Say whether a batch is planned and not committed."""
    numbers = [
        {int(p.name) for p in (checkpoint / log).iterdir() if p.name.isdigit()}
        for log in ("offsets", "commits")
    ]
    return bool(numbers[0] - numbers[1])


def processes(group: int, what: str) -> list[int]:
    """Return the processes of a group whose command line holds a word."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if os.getpgid(pid) == group and what in (entry / "cmdline").read_text():
                found.append(pid)
    return found


@pytest.mark.timeout(1000)
@pytest.mark.req("K-10", "O-01", "P-03")
@pytest.mark.case("R-03", "R-10", "R-13", "L-16")
def test_the_driver_killed_between_write_ahead_log_and_commit_log(
    stream: Stream, tmp_path: Path
) -> None:
    stream.put(60)
    stream.split(0)
    stream.put(60)
    assert run(stream, tmp_path, kill_at=1) == -signal.SIGKILL
    commits = {p.name for p in (tmp_path / "checkpoint" / "commits").iterdir()}
    assert "1" not in commits
    assert (tmp_path / "checkpoint" / "offsets" / "1").exists()
    stream.merge(0)
    stream.put(60)
    assert run(stream, tmp_path) == 0
    judge(stream, tmp_path)


@pytest.mark.timeout(1000)
@pytest.mark.case("R-13")
def test_the_source_process_killed(stream: Stream, tmp_path: Path) -> None:
    stream.put(400)
    with program(stream, tmp_path) as process:
        wait_for_a_batch(process, tmp_path)
        (source,) = processes(process.pid, "python_streaming_source_runner")
        os.kill(source, signal.SIGKILL)
        assert process.wait(timeout=LONG_SECONDS) != 0
    stream.put(20)
    assert run(stream, tmp_path) == 0
    judge(stream, tmp_path)


@pytest.mark.timeout(1000)
@pytest.mark.req("P-01", "P-03")
@pytest.mark.case("R-10")
def test_an_executor_of_a_cluster_killed_in_mid_batch(stream: Stream, tmp_path: Path) -> None:
    stream.put(400)
    with (
        cluster() as spark_cluster,
        program(stream, tmp_path, master=spark_cluster.master_url) as process,
    ):
        wait_for_a_batch(process, tmp_path)
        wait_until(lambda: in_flight(tmp_path / "checkpoint"), "another one is in flight")
        os.kill(spark_cluster.executors()[0], signal.SIGKILL)
        assert process.wait(timeout=LONG_SECONDS) == 0
    judge(stream, tmp_path)
