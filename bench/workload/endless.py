"""A Kinesis stream that never ends, from prebuilt answers: for what needs millions of records.

`with endless() as url:` starts it in a process of its own. Every page holds 10,000 records of
100 B; only the digits of the page's number are written anew in each, so that sequence numbers
rise. It implements the calls that a reader of one shard needs.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import socketserver
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

STREAM: Final = "endless"
SHARD: Final = "shardId-000000000000"
PAGE_RECORDS: Final = 10_000
RECORD_BYTES: Final = 100
_PAGE_DIGITS: Final = 20
_PREFIX: Final = "4965"
_ARN: Final = f"arn:aws:kinesis:us-east-1:000000000000:stream/{STREAM}"
_BIRTH: Final = 1_700_000_000


class _Pages:
    """One page's bytes, in which the page's number can be changed for all records at once."""

    def __init__(self) -> None:
        data = base64.b64encode(b"x" * RECORD_BYTES).decode()
        records = [
            {
                "SequenceNumber": f"{_PREFIX}{0:0{_PAGE_DIGITS}}{n:032}",
                "ApproximateArrivalTimestamp": _BIRTH + 0.123,
                "Data": data,
                "PartitionKey": f"customer-{n % 1000:04}",
            }
            for n in range(PAGE_RECORDS)
        ]
        listed = ",".join(json.dumps(each, separators=(",", ":")) for each in records)
        self._start = b'{"Records":['
        self._listed = bytearray(listed.encode())
        step = len(self._listed + b",") // PAGE_RECORDS  # all are of one length
        digits = listed.index(_PREFIX) + len(_PREFIX)
        self._numbers = np.ndarray(
            (PAGE_RECORDS, _PAGE_DIGITS), np.uint8, self._listed, digits, strides=(step, 1)
        )

    def body(self, page: int) -> bytes:
        """Return the answer with this page."""
        self._numbers[:] = np.frombuffer(f"{page:0{_PAGE_DIGITS}}".encode(), np.uint8)
        end = f'],"NextShardIterator":"{page + 1}","MillisBehindLatest":60000}}'
        return b"".join((self._start, self._listed, end.encode()))


def _answer(pages: _Pages, operation: str, asked: dict[str, Any]) -> bytes:
    if operation == "GetRecords":
        return pages.body(int(asked["ShardIterator"]))
    if operation == "GetShardIterator":
        # A position in the middle is only ever a page's end: the next page follows it.
        number = asked.get("StartingSequenceNumber")
        page = 0 if number is None else int(number[len(_PREFIX) :][:_PAGE_DIGITS]) + 1
        return json.dumps({"ShardIterator": str(page)}).encode()
    if operation == "ListShards":
        hashes = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
        numbers = {"StartingSequenceNumber": f"{_PREFIX}{0:052}"}
        shard = {"ShardId": SHARD, "HashKeyRange": hashes, "SequenceNumberRange": numbers}
        return json.dumps({"Shards": [shard]}).encode()
    summary = {
        "StreamName": STREAM,
        "StreamARN": _ARN,
        "StreamStatus": "ACTIVE",
        "RetentionPeriodHours": 1_000_000,
        "StreamCreationTimestamp": _BIRTH,
    }
    return json.dumps({"StreamDescriptionSummary": summary}).encode()


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        pages = _Pages()
        while self.rfile.readline():
            headers = {}
            while line := self.rfile.readline().strip():
                name, _, value = line.decode().partition(": ")
                headers[name.lower()] = value
            asked = json.loads(self.rfile.read(int(headers.get("content-length", 0))) or b"{}")
            body = _answer(pages, headers["x-amz-target"].rpartition(".")[2], asked)
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.1\r\n"
                b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            self.wfile.write(body)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _serve(connection: Connection) -> None:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        connection.send(server.server_address[1])
        server.serve_forever()


@contextmanager
def endless() -> Iterator[str]:
    """Serve until the block ends; yields the address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(theirs,), daemon=True
    )
    process.start()
    theirs.close()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()
