"""A process that writes to shards at a rate: `python -m bench.workload.writer JSON`.

It prints one line of JSON at its end: how many records were written, and how late the latest call
was. A writer that is late shows that the machine, not the reader, is the limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from itertools import count
from typing import Final, NamedTuple

from bench.workload.connection import Connection
from bench.workload.records import Entries, hash_key_of, stamp_of

CALL_SECONDS: Final = 0.25
MOST_ENTRIES: Final = 500
MOST_THREADS: Final = 4
FULL_PER_SECOND: Final = 1000
"""Records that a shard takes a second."""
KEEP_MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_ARENA_MAX": "1",
}
"""For glibc, which else gives the memory of every request back, and gets it anew for the next."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What is to be written."""

    endpoint_url: str
    stream: str
    shards: int
    """That the stream has, all written alike."""
    per_second: float
    """Records of one shard; 0 for as fast as possible."""
    seconds: float = 0.0
    fill: int = 0
    """Records of one shard, if they are written as fast as possible."""
    keys: int = 50
    """Of each shard."""
    first_number: int = 0
    """The number of each key's first record, less one."""


class Written(NamedTuple):
    """What was written."""

    records: int
    refused: int
    late_seconds: float


def start(writing: Writing) -> subprocess.Popen[str]:
    """Start a writer in a process of its own."""
    command = [sys.executable, "-m", "bench.workload.writer", json.dumps(asdict(writing))]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | KEEP_MEMORY
    )


def result(process: subprocess.Popen[str], seconds: float) -> Written:
    """Wait for a writer; return what it wrote."""
    out, _ = process.communicate(timeout=seconds)
    return Written(*json.loads(out))


def run(writing: Writing) -> Written:
    """Write until the time is over, or all is filled."""
    lanes = [_Lane(writing, n) for n in range(min(MOST_THREADS, writing.shards))]
    threads = [threading.Thread(target=lane.run) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Written(
        sum(lane.records for lane in lanes),
        sum(lane.refused for lane in lanes),
        max(lane.late_seconds for lane in lanes),
    )


class _Lane:
    """One thread with a connection, and the shards that it writes to, one after the other."""

    def __init__(self, writing: Writing, lane: int) -> None:
        self._writing = writing
        self._shards = range(lane, writing.shards, MOST_THREADS)
        keys, shards, first = writing.keys, writing.shards, writing.first_number + 1
        self._entries = {
            shard: [
                Entries(shard * keys + key, hash_key_of(shard, shards, key, keys), first)
                for key in range(keys)
            ]
            for shard in self._shards
        }
        self._turns = dict.fromkeys(self._shards, 0)
        self.records = self.refused = 0
        self.late_seconds = 0.0

    def run(self) -> None:
        connection = Connection(self._writing.endpoint_url)
        if self._writing.fill:
            self._fill(connection)
        else:
            self._write_at_rate(connection)
        connection.close()

    def _fill(self, connection: Connection) -> None:
        """Write all shards alike. The first lane moves the service's clock as it writes.

        So records arrive in the time that the service takes for so many, and not all at once.
        """
        for done in range(0, self._writing.fill, MOST_ENTRIES):
            entries = min(MOST_ENTRIES, self._writing.fill - done)
            for shard in self._shards:
                self._put(connection, shard, entries)
            if 0 in self._shards:
                connection.control("clock/advance", b'{"seconds":%f}' % (entries / FULL_PER_SECOND))

    def _write_at_rate(self, connection: Connection) -> None:
        writing, began = self._writing, time.monotonic()
        call_seconds = max(CALL_SECONDS, 1 / writing.per_second)
        owed = dict.fromkeys(self._shards, 0.0)
        for turn in count():
            for place, shard in enumerate(self._shards):
                due = began + (turn + place / len(self._shards)) * call_seconds
                now = time.monotonic()
                if max(due, now) - began > writing.seconds:
                    return
                self.late_seconds = max(self.late_seconds, now - due)
                time.sleep(max(0.0, due - now))
                owed[shard] += writing.per_second * call_seconds
                self._put(connection, shard, int(owed[shard]))
                owed[shard] -= int(owed[shard])

    def _put(self, connection: Connection, shard: int, entries: int) -> None:
        keys, of_shard = self._writing.keys, self._entries[shard]
        stamp = stamp_of(time.time())
        parts = [b'{"StreamName":"%b","Records":[' % self._writing.stream.encode()]
        for turn in range(self._turns[shard], self._turns[shard] + entries):
            parts += of_shard[turn % keys].next_parts(stamp)
            parts.append(b",")
        self._turns[shard] += entries
        parts[-1] = b"]}"
        body = b"".join(parts)
        answer = connection.call("PutRecords", body)
        refused = int(answer.partition(b'"FailedRecordCount":')[2].partition(b",")[0].strip(b"}"))
        self.records += entries - refused
        self.refused += refused


if __name__ == "__main__":
    print(json.dumps(run(Writing(**json.loads(sys.argv[1])))))
