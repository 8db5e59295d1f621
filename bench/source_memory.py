"""A backlog read by the DataFrame source in bounded batches, the limits of Kinesis on.

`python -m bench.source_memory` fills 16 shards with a million records of 100 B, no faster than
shards take them (the bound of a range rests on that), reads them as a streaming query with
`maxRecordsPerBatch`, and prints one line of JSON: records, batches, the largest batch, and the
resident memory of the process that plans and of those that run tasks, a tenth, a half and all of
the way.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.workload.processes import tree_of
from bench.workload.service import REGION, Kinesis, kinesis
from shardline.spark import session

STREAM: Final = "backlog"
SHARDS: Final = 16
RECORD_BYTES: Final = 100
_ENTRIES: Final = 480
_REFUSED_SECONDS: Final = 0.1
_HASH_KEYS: Final = 2**128
_IDLE_SECONDS: Final = 60.0
_PARTS: Final = (0.1, 0.5, 1.0)


def fill(service: Kinesis, records: int) -> None:
    """Write so many records, equally many to each shard."""

    def put(call: int) -> None:
        left = [
            {
                "Data": b"x" * RECORD_BYTES,
                "PartitionKey": f"customer-{n:04}",
                "ExplicitHashKey": str((n % SHARDS * 2 + 1) * _HASH_KEYS // (SHARDS * 2)),
            }
            for n in range(min(_ENTRIES, records - call * _ENTRIES))
        ]
        while left:
            answer = service.client.put_records(StreamName=STREAM, Records=left)
            results = zip(left, answer["Records"], strict=True)
            left = [entry for entry, result in results if "ErrorCode" in result]
            if left:
                time.sleep(_REFUSED_SECONDS)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(put, range(-(-records // _ENTRIES))))


def resident_mib(pid: int) -> dict[str, float]:
    """Return the resident memory of Spark's Python processes: the largest of each kind."""
    found: dict[str, float] = {}
    for each in tree_of(pid):
        with suppress(OSError, IndexError):
            command = Path(f"/proc/{each}/cmdline").read_text()
            status = Path(f"/proc/{each}/status").read_text()
            mib = int(status.split("VmRSS:")[1].split()[0]) / 1024
            if "java" in command.split("\0")[0]:
                kind = "JVM"
            elif "streaming_source" in command:
                kind = "source"
            elif "daemon" in command:
                kind = "task"
            else:
                continue
            found[kind] = round(max(mib, found.get(kind, 0.0)), 1)
    return found


def measure(records: int, most_in_batch: int) -> dict[str, Any]:
    """Fill, read, and return what it took."""
    with kinesis() as service, tempfile.TemporaryDirectory() as checkpoint:
        service.create(STREAM, SHARDS)
        service.limit(enabled=True)
        began = time.monotonic()
        fill(service, records)
        filled_seconds = time.monotonic() - began
        spark = session("bench", master="local[2]")
        spark.sparkContext.setLogLevel("OFF")
        batches: list[int] = []
        memory: list[dict[str, float]] = []
        last = time.monotonic()

        def deliver(rows: Any, _: int) -> None:
            nonlocal last
            counted = rows.selectExpr("count(*) n", "sum(length(data)) size").collect()[0]
            if counted.n:
                assert counted["size"] == counted.n * RECORD_BYTES
                batches.append(counted.n)
                last = time.monotonic()
                while len(memory) < len(_PARTS) and sum(batches) >= records * _PARTS[len(memory)]:
                    memory.append(resident_mib(os.getpid()))

        began = last = time.monotonic()
        query = (
            spark.readStream.format("kinesis")
            .option("streamName", STREAM)
            .option("endpointUrl", service.endpoint_url)
            .option("region", REGION)
            .option("startingPosition", "trim_horizon")
            .option("maxRecordsPerBatch", str(most_in_batch))
            .load()
            .writeStream.foreachBatch(deliver)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        while sum(batches) < records and time.monotonic() - last < _IDLE_SECONDS:
            query.awaitTermination(1)
        query.stop()
        spark.stop()
    return {
        "records": sum(batches),
        "batches": len(batches),
        "largest_batch": max(batches, default=0),
        "limit": most_in_batch,
        "fill_seconds": round(filled_seconds, 1),
        "read_seconds": round(last - began, 1),
        "resident_mib": dict(zip(map(str, _PARTS), memory, strict=False)),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--records", type=int, default=1_000_000, help="how many to read")
    parser.add_argument("--batch", type=int, default=20_000, help="maxRecordsPerBatch")
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.records, chosen.batch)))


if __name__ == "__main__":
    main()
