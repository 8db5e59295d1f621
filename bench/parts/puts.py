"""Writing to a stream: `shardline.put` beside a loop of boto3's PutRecords, and of its PutRecord.

`python -m bench.parts.puts` prints the figures. Each writer is a process of its own; the service
runs in this one. The loop of PutRecords sends what was refused again with the next call, so it
keeps no order. The loop of PutRecord keeps it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, Final

import boto3

import shardline
from bench.figures import Figure, ratios
from shardline.local import Service

SHARDS: Final = 4
RECORD_BYTES: Final = 1000
CALL_RECORDS: Final = 500
RECORDS: Final = {"put": 20_000, "packed": 20_000, "loop": 20_000, "rows": 2_000}
LIMITED_RECORDS: Final = {"put": 16_000, "packed": 16_000, "loop": 16_000, "rows": 2_000}
"""Four seconds of the shards' quota, of which one is there at the beginning."""
REFUSED_RECORDS: Final = {"put": 10_000, "packed": 10_000, "loop": 10_000, "rows": 50}
REFUSED_PART: Final = 1 / 3
"""Of the entries, at random, beside those above the quota."""
SETTINGS: Final = ((5_000, "limits off"), (50, "limits off"), (50, "limits on"), (50, "refusals"))


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """Measure for `python -m bench`."""
    del quick
    return [figure.as_json() for figure in _measured(1)]


def _measured(rounds: int) -> list[Figure]:
    found = []
    for keys, setting in SETTINGS:
        rates: dict[str, list[float]] = {}
        for _ in range(rounds):
            for writer in ("loop", "put", "packed", "rows"):
                rates.setdefault(writer, []).append(rate(writer, keys, setting))
        where = f"{keys:,} keys, {setting}"
        for writer, name in (("put", "put"), ("packed", "put, packed")):
            for other, against in (("loop", "PutRecords loop"), ("rows", "PutRecord loop")):
                note = f"{max(rates[writer]):,.0f} records/s"
                faster = ratios(rates[writer], rates[other])
                found.append(Figure(f"{name}, {where}", against, faster, note=note))
    return found


def rate(writer: str, keys: int, setting: str) -> float:
    """Return the records a second of one writer, on a service of its own.

    With "refusals" the limits are on, and a third of the entries is refused at random besides.
    """
    with Service(limits=setting != "limits off") as service:
        client = service.client("kinesis")
        client.create_stream(StreamName="bench", ShardCount=SHARDS)
        counts = RECORDS if setting == "limits off" else LIMITED_RECORDS
        if setting == "refusals":
            counts = REFUSED_RECORDS
            for operation in ("PutRecords", "PutRecord"):
                service.faults.add("throttle", operation, times=None, probability=REFUSED_PART)
        count = counts[writer]
        command = [sys.executable, "-m", "bench.parts.puts", writer, service.endpoint_url]
        done = subprocess.run(
            [*command, str(keys), str(count)], check=True, capture_output=True, text=True
        )
        client.close()
    return count / float(json.loads(done.stdout))


def write(writer: str, url: str, keys: int, count: int) -> float:
    """Write records, and return the seconds taken: connecting is not counted."""
    records = [(f"key-{n % keys}", b"%d" % n + bytes(RECORD_BYTES)) for n in range(count)]
    if writer in ("put", "packed"):
        packed = writer == "packed"
        with shardline.writer("kinesis://bench", endpoint_url=url, aggregate=packed) as opened:
            opened.put(*records[0])
            opened.flush()
            started = time.perf_counter()
            for key, data in records:
                opened.put(key, data)
            opened.flush()
            return time.perf_counter() - started
    client = boto3.client(
        "kinesis",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106
    )
    client.list_shards(StreamName="bench")
    started = time.perf_counter()
    if writer == "rows":
        for key, data in records:
            while not _put_record(client, key, data):
                time.sleep(0.05)
    else:
        _put_all(client, [{"PartitionKey": key, "Data": data} for key, data in records])
    return time.perf_counter() - started


def _put_record(client: Any, key: str, data: bytes) -> bool:
    try:
        client.put_record(StreamName="bench", PartitionKey=key, Data=data)
    except client.exceptions.ProvisionedThroughputExceededException:
        return False
    return True


def _put_all(client: Any, entries: list[dict[str, Any]]) -> None:
    refused: list[dict[str, Any]] = []
    rest = iter(entries)
    while True:
        call = refused + [entry for _, entry in zip(range(CALL_RECORDS - len(refused)), rest)]  # noqa: B905
        if not call:
            return
        answer = client.put_records(StreamName="bench", Records=call)
        results = zip(call, answer["Records"], strict=True)
        refused = [entry for entry, result in results if "ErrorCode" in result]
        if refused:
            time.sleep(0.05)


def main() -> None:
    """Write as one process, or print the figures."""
    if len(sys.argv) > 1:
        writer, url, keys, count = sys.argv[1:]
        print(write(writer, url, int(keys), int(count)))
        return
    for figure in _measured(2):
        rounds = ", ".join(f"{each:.2f}" for each in figure.rounds)
        print(f"{figure.what} / {figure.against}: {rounds}; {figure.note}")


if __name__ == "__main__":
    main()
