"""Whether memory stays flat over four million records, and what a million costs in CPU.

Each way of reading runs in a process of its own, reads one endless stream of 100 B records
(`bench.workload.endless`) and prints its peak memory at 1, 2 and 4 million. It checks on the
way that sequence numbers rise.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import shardline
from bench.figures import Figure
from bench.workload.endless import PAGE_RECORDS, SHARD, STREAM, endless
from shardline.core.positions import TRIM_HORIZON
from shardline.services.access import Access
from shardline.services.connection import connect
from shardline.services.cursor import ShardCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARKS: Final = (1_000_000, 2_000_000, 4_000_000)
QUICK_MARKS: Final = (200_000, 400_000, 1_000_000)
_NUMBER_BYTES: Final = 56


def pages(endpoint_url: str) -> Iterator[int]:
    """Read Arrow pages, as Spark's executors do; yield how many records came each time."""
    service = connect(f"kinesis://{STREAM}", Access(endpoint_url=endpoint_url))
    cursor = ShardCursor(service, SHARD, TRIM_HORIZON)
    last = np.zeros(1, f"S{_NUMBER_BYTES}")
    while True:
        column = cursor.read(PAGE_RECORDS).records.column("sequenceNumber")
        numbers = np.frombuffer(column.buffers()[2], f"S{_NUMBER_BYTES}", len(column))
        assert numbers[0] > last[0], "the page before ended behind this one's start"
        assert (numbers[1:] > numbers[:-1]).all(), "records are out of order"
        last = numbers[-1:].copy()
        yield len(column)


def records(endpoint_url: str) -> Iterator[int]:
    """Read with `next(stream)`, a thousand at a time."""
    with shardline.stream(
        f"kinesis://{STREAM}", "trim_horizon", endpoint_url=endpoint_url
    ) as stream:
        last = ""
        while True:
            count = 0
            while count < 1_000:
                record = next(stream)
                if record is not None:
                    assert record.sequence_number > last, "records are out of order"
                    last = record.sequence_number
                    count += 1
            yield count


WAYS: Final[dict[str, Callable[[str], Iterator[int]]]] = {
    "Arrow pages": pages,
    "next(stream)": records,
}


def read(way: str, endpoint_url: str, marks: list[int]) -> None:
    """Read, and print what was used at each mark."""
    used: list[dict[str, float]] = []
    count = 0
    started = time.process_time()
    for came in WAYS[way](endpoint_url):
        count += came
        if count >= marks[len(used)]:
            status = Path("/proc/self/status").read_text()
            peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
            used.append({"peak_mib": peak, "cpu_seconds": time.process_time() - started})
            if len(used) == len(marks):
                break
    print(json.dumps(used), flush=True)


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Read to the last mark each way."""
    return [figure.as_json() for figure in _measured(QUICK_MARKS if quick else MARKS)]


def _measured(marks: tuple[int, ...]) -> list[Figure]:
    measured = []
    with endless() as endpoint_url:
        for way in WAYS:
            asked = json.dumps(marks)
            done = subprocess.run(
                [sys.executable, "-m", "bench.parts.memory", way, endpoint_url, asked],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                error = done.stderr.strip().splitlines()[-1]
                measured.append(Figure(f"memory, {way}", "", (), note=f"FAILED: {error}"))
                continue
            measured += _figures(way, marks, json.loads(done.stdout))
    return measured


def _figures(way: str, marks: tuple[int, ...], used: list[dict[str, Any]]) -> list[Figure]:
    peaks = [each["peak_mib"] for each in used]
    millions = [f"{mark / 1e6:g}" for mark in marks]
    peaks_text = ", ".join(
        f"{peak:.0f} MiB at {million} M" for peak, million in zip(peaks, millions, strict=True)
    )
    spent = [(0, 0.0), *((mark, t["cpu_seconds"]) for mark, t in zip(marks, used, strict=True))]
    per_million = tuple(
        (cpu - before_cpu) / (mark - before) * 1e6
        for (before, before_cpu), (mark, cpu) in pairwise(spent)
    )
    return [
        Figure(
            f"{way}: peak memory at {millions[-1]} million records",
            f"at {millions[0]} million",
            (peaks[-1] / peaks[0],),
            note=peaks_text,
        ),
        Figure(
            f"{way}: CPU of a million records of 100 B",
            "between the marks",
            per_million,
            "s",
            note="socket, botocore and the check of order included",
        ),
    ]


if __name__ == "__main__":
    read(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
