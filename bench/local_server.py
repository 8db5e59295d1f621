"""How many records a second the embedded service gives and takes, from one process.

`python -m bench.local_server` prints them. The other side is a process of its own that speaks HTTP
over a plain socket and looks at no record, so that it is the service that is measured.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any, Final

from bench.figures import Figure
from shardline.local import Service

RECORD_BYTES: Final = 1000
RECORDS: Final = 20_000
PUT_RECORDS: Final = 500
SECONDS: Final = 3.0
TARGET_PER_SECOND: Final = 100_000
STREAM: Final = "bench"


def run(seconds: float = SECONDS) -> dict[str, Any]:
    """Measure writing, then reading; rates are records a second of wall and of server CPU time."""
    with Service() as service:
        client = service.client("kinesis")
        client.create_stream(StreamName=STREAM, ShardCount=1)
        results: dict[str, Any] = {"record_bytes": RECORD_BYTES, "target": TARGET_PER_SECOND}
        for action in ("write", "read"):
            cpu_before = time.process_time()
            told = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "bench.local_server",
                    action,
                    str(service.port),
                    str(seconds),
                ],
                check=True,
                capture_output=True,
                text=True,
            )
            cpu_seconds = time.process_time() - cpu_before
            records, took = json.loads(told.stdout)
            results[f"{action}_per_second"] = records / took
            results[f"{action}_per_cpu_second"] = records / cpu_seconds
    results["ratio"] = results["read_per_second"] / TARGET_PER_SECOND
    return results


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure for `python -m bench`: how much more it gives than a boto3 loop can take."""
    rounds = [run(SECONDS / 3) for _ in range(2 if quick else 3)]
    said = f"{RECORD_BYTES:,} B records, raw HTTP on the other side"
    return [
        Figure(
            f"{action}s, one process",
            f"{TARGET_PER_SECOND:,} records/s",
            tuple(each[f"{action}_per_second"] / TARGET_PER_SECOND for each in rounds),
            target=1.0 if action == "read" else None,
            note=said,
            held_back="copying a page's body through the socket",
        )
        for action in ("read", "write")
    ]


class _Connection:
    """One HTTP connection that sends prepared bodies and takes the answers off the socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._buffer = memoryview(bytearray(1 << 20))

    def call(self, operation: str, body: bytes, *, keep: bool = False) -> bytes:
        """Return the answer's body, or only what came first of it unless it is to be kept."""
        self._socket.sendall(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.1\r\n"
            b"Authorization: AWS4 Credential=a, SignedHeaders=b, Signature=c\r\nX-Amz-Date: d\r\n"
            b"X-Amz-Target: Kinesis_20131202.%b\r\nContent-Length: %d\r\n\r\n%b"
            % (operation.encode(), len(body), body)
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._socket.recv(4096)
        head, _, start = head.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head + start
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        missing = length - len(start)
        while missing:
            count = self._socket.recv_into(self._buffer)
            assert count, "the service closed the connection"
            missing -= count
            if keep:
                start += self._buffer[:count]
        return start


def _write(port: int, seconds: float) -> tuple[int, float]:
    record = {
        "Data": base64.b64encode(os.urandom(RECORD_BYTES)).decode(),
        "PartitionKey": "customer-1",
    }
    body = json.dumps({"StreamName": STREAM, "Records": [record] * PUT_RECORDS}).encode()
    connection = _Connection(port)
    started, written = time.perf_counter(), 0
    while written < RECORDS or time.perf_counter() - started < seconds / 10:
        connection.call("PutRecords", body)
        written += PUT_RECORDS
    return written, time.perf_counter() - started


def _read(port: int, seconds: float) -> tuple[int, float]:
    connection = _Connection(port)
    start = {
        "StreamName": STREAM,
        "ShardId": "shardId-000000000000",
        "ShardIteratorType": "TRIM_HORIZON",
    }
    answer = connection.call("GetShardIterator", json.dumps(start).encode(), keep=True)
    body = json.dumps({"ShardIterator": json.loads(answer)["ShardIterator"]}).encode()
    # The same page again and again: how many records it holds is counted once.
    page = len(json.loads(connection.call("GetRecords", body, keep=True))["Records"])
    started, records = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        connection.call("GetRecords", body)
        records += page
    return records, time.perf_counter() - started


def main() -> None:
    """Print the rates, or be the other side."""
    if len(sys.argv) == 4:
        action, port, seconds = sys.argv[1:]
        other_side = _write if action == "write" else _read
        print(json.dumps(other_side(int(port), float(seconds))))
        return
    results = run()
    print(f"shardline local, one process, {RECORD_BYTES:,} B records, raw HTTP on the other side")
    print(f"{'':6} {'records/s':>12} {'a CPU second':>13}")
    for action in ("read", "write"):
        print(
            f"{action:6} {results[f'{action}_per_second']:12,.0f} "
            f"{results[f'{action}_per_cpu_second']:13,.0f}"
        )
    print(f"read: {results['ratio']:.1f} × the {TARGET_PER_SECOND:,} records/s asked for")


if __name__ == "__main__":
    main()
