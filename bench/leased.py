"""Spark workers that share a stream: how long a kill and a deploy are felt, and how fresh it is.

`python -m bench.leased [--quick]` prints a table. Two real applications (`shardline run`) read the
embedded service under a lease table in SQLite; one is killed or stopped, and a new one comes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import Figure, print_plainly
from shardline.cli.demo.workers import Worker
from shardline.core.leasing.rows import worker_name
from shardline.leases.address import open_table
from shardline.local.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

STREAM: Final = "bench"
APP: Final = "demo"
SHARDS: Final = 4
LEASE_SECONDS: Final = 10
PUTS_PER_SECOND: Final = 20
PATIENCE_SECONDS: Final = 300.0


class Trickle:
    """Puts small records under many keys, a few a second, and remembers when each was put."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.put_at: dict[tuple[str, int], float] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(1 / PUTS_PER_SECOND):
            at = time.time()
            answer = self._client.put_record(
                StreamName=STREAM, PartitionKey=f"key-{number % 64}", Data=b"%d" % number
            )
            self.put_at[answer["ShardId"], int(answer["SequenceNumber"])] = at
            number += 1


class Pair:
    """Two workers, of which one may go and another come."""

    def __init__(self, cleaning: ExitStack) -> None:
        self._folder = Path(
            cleaning.enter_context(tempfile.TemporaryDirectory(prefix="shardline-bench-"))
        )
        service = cleaning.enter_context(Service())
        self._endpoint_url = service.endpoint_url
        client = service.client("kinesis")
        client.create_stream(StreamName=STREAM, ShardCount=SHARDS)
        self._lease_table = f"sqlite:///{self._folder}/leases.db"
        self._table = open_table(self._lease_table)
        self._table.prepare()
        self.trickle = Trickle(client)
        self.workers: list[Worker] = []
        cleaning.callback(self._kill_all)
        cleaning.callback(self.trickle.stop)
        self.trickle.start()

    def _kill_all(self) -> None:
        for worker in self.workers:
            worker.kill()

    def start(self) -> Worker:
        worker = Worker(
            f"worker-{len(self.workers)}",
            self._folder,
            stream=f"kinesis://{STREAM}",
            endpoint_url=self._endpoint_url,
            lease_table=self._lease_table,
            more=("--lease-seconds", str(LEASE_SECONDS)),
        )
        self.workers.append(worker)
        return worker

    def held_by(self, worker: Worker) -> set[str]:
        rows = self._table.scan_rows(APP, STREAM, None, 1000).rows
        return {
            r.shard_id for r in rows if r.lease_owner and worker_name(r.lease_owner) == worker.name
        }

    def share(self, *workers: Worker) -> None:
        """Wait until each has its part, and reads."""
        self.until(
            lambda: all(
                len(self.held_by(w)) == SHARDS // len(workers) and w.log.lines for w in workers
            )
        )

    def until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            for worker in self.workers:
                worker.log.read_on()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE_SECONDS:.0f} s in vain")
            time.sleep(0.02)

    def seconds_until_read(self, shard_ids: set[str], heir: Worker, since: float) -> list[float]:
        """Return for each shard how long it took until the heir read it."""

        def firsts() -> dict[str, float]:
            found: dict[str, float] = {}
            for line in heir.log.lines:
                if line.shard_id in shard_ids and line.what == "delivered" and line.at > since:
                    found.setdefault(line.shard_id, line.at - since)
            return found

        self.until(lambda: firsts().keys() == shard_ids)
        return list(firsts().values())

    def latencies(self, since: float) -> list[float]:
        """Return how long each record that was put since then took to its first delivery."""
        first: dict[tuple[str, int], float] = {}
        for line in sorted((x for w in self.workers for x in w.log.lines), key=lambda x: x.at):
            for record in line.records:
                first.setdefault((line.shard_id, record.sequence), line.at)
        put_at = self.trickle.put_at
        return [
            at - put_at[which] for which, at in first.items() if put_at.get(which, since) > since
        ]


def figures(*, quick: bool = False) -> list[Figure]:
    """Measure: a kill and a stop, so many times, with a new worker each time."""
    repeats = 1 if quick else 3
    kills: list[float] = []
    stops: list[float] = []
    latencies: list[float] = []
    with ExitStack() as cleaning:
        pair = Pair(cleaning)
        left, right = pair.start(), pair.start()
        pair.share(left, right)
        steady_at = time.time()
        pair.until(lambda: len(pair.latencies(steady_at)) > PUTS_PER_SECOND * 20)
        latencies = pair.latencies(steady_at)
        ends = ((Worker.kill, kills), (Worker.ask_to_stop, stops)) * repeats
        for last, (end, felt) in zip(range(len(ends))[::-1], ends, strict=True):
            shards, since = pair.held_by(left), time.time()
            end(left)
            felt.extend(pair.seconds_until_read(shards, right, since))
            if last:
                left, right = right, pair.start()
                pair.share(left, right)
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    seconds = "seconds"
    return [
        Figure(
            "kill -9, until another worker reads the shard",
            seconds,
            tuple(kills),
            "s",
            target=15,
            at_most=True,
            note=f"leases of {LEASE_SECONDS} s; {load}",
            held_back="the lease has to run out before anybody may take the shard",
        ),
        Figure(
            "SIGTERM, until another worker reads the shard",
            seconds,
            tuple(stops),
            "s",
            target=2,
            at_most=True,
            note="with the running batch",
            held_back="the running batch is finished first, and the heir starts a new one",
        ),
        Figure(
            "put to consumer, half of them",
            seconds,
            (statistics.median(latencies),),
            "s",
            target=0.5,
            at_most=True,
            note=f"{PUTS_PER_SECOND} records/s on {SHARDS} shards",
            held_back="two Spark drivers and their batches on the cores of one machine",
        ),
        Figure(
            "put to consumer, 99 of 100",
            seconds,
            (statistics.quantiles(latencies, n=100)[98],),
            "s",
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser("python -m bench.leased", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one kill and one stop")
    print_plainly(figures(quick=parser.parse_args().quick))
    return 0


if __name__ == "__main__":
    sys.exit(main())
