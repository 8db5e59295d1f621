"""The KCL for Java with its default retrieval, enhanced fan-out, on the embedded service.

`python -m bench.kcl_fan_out`: it reads while records are written and shards are split and merged.
Prints how many records were written, lost, repeated and out of order, and fails unless all of the
last three are 0. It needs what the Kinesis Client Library needs: see README.md.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench.contenders import CONTENDERS, Place, kcl, running
from bench.workload.service import kinesis
from bench.workload.trial import FIRST_RECORDS, START_SECONDS, STREAM
from bench.workload.writer import Writing, result, start
from tests.servers.aws import dynamodb_local

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.workload.deliveries import Delivery
    from bench.workload.service import Kinesis

SHARDS: Final = 2
PER_SECOND: Final = 100.0
SECONDS: Final = 10.0
KEYS: Final = 10
READER: Final = CONTENDERS["kcl-java-fan-out"]


def read_through_reshards() -> dict[str, int]:
    """Let the library read while shards are split and merged; return what came."""
    with TemporaryDirectory(prefix="bench-") as folder, kinesis() as service:
        place = Place(service.endpoint_url, STREAM, SHARDS, Path(folder), detail=True)
        service.create(STREAM, SHARDS)
        service.fill(STREAM, SHARDS, FIRST_RECORDS)
        with running(READER, place) as reader:
            reader.log.wait_for(FIRST_RECORDS * SHARDS, START_SECONDS, reader.check)
            writing = Writing(
                service.endpoint_url,
                STREAM,
                SHARDS,
                PER_SECOND,
                SECONDS,
                keys=KEYS,
                first_number=FIRST_RECORDS,
            )
            writer = start(writing)
            split_and_merge(service)
            written = result(writer, SECONDS + 60).records
            everything = FIRST_RECORDS * SHARDS + written
            reader.log.wait_for(everything, START_SECONDS, reader.check)
            subscribed = service.client.list_stream_consumers(StreamARN=_arn(service))
        if not subscribed["Consumers"]:
            raise RuntimeError("no fan-out consumer was registered: it polled")
        return judged(reader.log.deliveries, everything)


def split_and_merge(service: Kinesis) -> None:
    """Split the first shard, then merge its children."""
    client: Any = service.client
    client.split_shard(
        StreamName=STREAM,
        ShardToSplit="shardId-000000000000",
        NewStartingHashKey=str(2**126),
    )
    service.wait_until_active(STREAM)
    client.merge_shards(
        StreamName=STREAM,
        ShardToMerge=f"shardId-{SHARDS:012d}",
        AdjacentShardToMerge=f"shardId-{SHARDS + 1:012d}",
    )
    service.wait_until_active(STREAM)


def judged(deliveries: Iterable[Delivery], written: int) -> dict[str, int]:
    """Return what was lost, repeated, and delivered after a later record of its key."""
    seen: dict[str, set[int]] = {}
    repeated = out_of_order = 0
    for each in sorted(deliveries, key=lambda each: each.at):
        for key, number in each.records:
            numbers = seen.setdefault(key, set())
            repeated += number in numbers
            out_of_order += number < max(numbers, default=0)
            numbers.add(number)
    lost = written - sum(map(len, seen.values()))
    return {"written": written, "lost": lost, "repeated": repeated, "out_of_order": out_of_order}


def _arn(service: Kinesis) -> str:
    summary = service.client.describe_stream_summary(StreamName=STREAM)
    return str(summary["StreamDescriptionSummary"]["StreamARN"])


def main() -> int:
    """Print the figures; return 1 if anything was lost, repeated or out of order."""
    with dynamodb_local() as endpoint:
        os.environ[kcl.DYNAMODB_VARIABLE] = endpoint.endpoint_url
        found = read_through_reshards()
    print(json.dumps(found))
    return int(any(found[name] for name in ("lost", "repeated", "out_of_order")))


if __name__ == "__main__":
    sys.exit(main())
