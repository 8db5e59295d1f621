"""What a batch of one record takes in the DataFrame source, when the query is warm.

`python -m bench.one_record` writes one record after the other to a stream of two shards, the
limits of Kinesis on, reads them as a streaming query into nothing, and prints one line of JSON: the
median of the first batches and of the last ones, and where the time of the last ones went. Java
compiles what runs often: the first hundred batches are slower.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from typing import Any, Final

from bench.workload.service import REGION, kinesis
from shardline.spark import session

STREAM: Final = "trickle"
_WARM_UP: Final = 5
_COUNTED: Final = 50
_PAUSE_SECONDS: Final = 0.16


def measured(records: int) -> dict[str, Any]:
    """Return the durations of batches that held one record, in milliseconds."""
    with kinesis() as service, tempfile.TemporaryDirectory() as checkpoint:
        service.create(STREAM, 2)
        service.limit(enabled=True)
        kept = {"spark__sql__streaming__numRecentProgressUpdates": str(records + 10)}
        spark = session("one-record", "local[2]", **kept)
        spark.sparkContext.setLogLevel("ERROR")
        source = (
            spark.readStream.format("kinesis")
            .option("streamName", STREAM)
            .option("endpointUrl", service.endpoint_url)
            .option("region", REGION)
            .option("startingPosition", "trim_horizon")
            .load()
        )
        writer = source.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.start()
        for number in range(records):
            service.client.put_record(StreamName=STREAM, Data=b"x" * 100, PartitionKey=str(number))
            time.sleep(_PAUSE_SECONDS)
        query.processAllAvailable()
        batches = [p["durationMs"] for p in query.recentProgress if p["numInputRows"] == 1]
        query.stop()
        spark.stop()
    return {
        "batches": len(batches),
        "first_ms": _median(batches[_WARM_UP : _WARM_UP + _COUNTED], "triggerExecution"),
        "last_ms": _median(batches[-_COUNTED:], "triggerExecution"),
        "last_parts_ms": {name: _median(batches[-_COUNTED:], name) for name in batches[-1]},
    }


def _median(batches: list[dict[str, int]], part: str) -> float:
    return statistics.median(batch.get(part, 0) for batch in batches)


def main() -> None:
    """Measure, and print a line."""
    parser = argparse.ArgumentParser("python -m bench.one_record", description=__doc__)
    parser.add_argument("--records", type=int, default=600)
    print(json.dumps(measured(parser.parse_args().records)))


if __name__ == "__main__":
    main()
