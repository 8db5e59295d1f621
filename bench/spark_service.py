"""A service in a process of its own, with a backlog that Spark reads, and what was written."""

from __future__ import annotations

import base64
import json
import multiprocessing
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.local import Service

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from multiprocessing.connection import Connection

SHARDS: Final = 8
KEYS: Final = 5_000
TRICKLE: Final = "trickle"


class Served:
    """Where the streams are, and what was written to them."""

    def __init__(self, endpoint_url: str, folder: Path) -> None:
        self.endpoint_url = endpoint_url
        self._folder = folder

    def judge(self, stream: str, parquet: Path) -> None:
        """Hold what Spark wrote, in the order of its files and rows, against what was written."""
        checker = PromiseChecker()
        for line in (self._folder / stream).read_text().splitlines():
            shard_id, number, key = line.split(" ")
            checker.wrote(shard_id, RecordRef(key, int(number)))
        columns = ["shardId", "sequenceNumber", "partitionKey"]
        for file in sorted(parquet.glob("*.parquet")):
            table = pq.read_table(file, columns=columns)
            rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
            for shard_id, number, key in rows:
                checker.delivered(shard_id, Fence(), [RecordRef(key, int(number))])
        checker.verdict().require()


def backlog_of(size: int) -> str:
    """Return the name of the stream of records of a size."""
    return f"backlog-{size}"


@contextmanager
def served(records: Mapping[int, int]) -> Iterator[Served]:
    """Run a service with so many records of each size; and with an empty stream for a trickle."""
    ours, theirs = multiprocessing.Pipe()
    with TemporaryDirectory() as folder:
        arguments = (theirs, Path(folder), dict(records))
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=arguments)
        process.start()
        theirs.close()  # so that its end is noticed if it fails
        try:
            yield Served(ours.recv(), Path(folder))
        finally:
            ours.close()
            process.join()


def _serve(connection: Connection, folder: Path, records: Mapping[int, int]) -> None:
    with Service() as service:
        service.create_stream(TRICKLE, 1)
        for size, count in records.items():
            (folder / backlog_of(size)).write_text("\n".join(_fill(service, size, count)))
        connection.send(service.endpoint_url)
        connection.poll(None)  # until the other end is closed


def _fill(service: Service, size: int, count: int) -> Iterator[str]:
    stream = backlog_of(size)
    service.create_stream(stream, SHARDS)
    data = base64.b64encode(b"x" * size).decode()
    for first in range(0, count, 500):
        keys = [f"customer-{n % KEYS}" for n in range(first, min(first + 500, count))]
        request = {
            "StreamName": stream,
            "Records": [{"PartitionKey": key, "Data": data} for key in keys],
        }
        # Nobody else calls yet, so this may be done from here.
        answer = service.kinesis.call("PutRecords", request, service.clock.now_ms())
        service.clock.advance(0.1)  # as fast as eight shards take them, so windows hold
        for key, written in zip(keys, json.loads(answer)["Records"], strict=True):
            yield f"{written['ShardId']} {written['SequenceNumber']} {key}"
