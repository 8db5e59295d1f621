"""Attack a real lease table, and judge every row: `python -m tests.simulation.stores.attack`.

Clients in processes of their own read and swap the same few rows. Some are killed or stopped in
the middle of a call; between them and a server stands a relay that delays, cuts, goes silent or
works one way only. Then each row's history must be linearizable.
"""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from shardline.leases.address import open_table
from shardline.services.access import Access
from tests import servers
from tests.simulation.stores.client import run_client
from tests.simulation.stores.registers import Operation, Outcome, anomaly
from tests.simulation.stores.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

STORES: Final = ("sqlite", "postgresql", "dynamodb")
CLIENTS: Final = 10
"""Many, since a client that waits for a lost answer does nothing else."""
_CLIENTS: Final = get_context("forkserver")
_CLIENTS.set_forkserver_preload(["tests.simulation.stores.client"])
_BURST: Final = 2_000
"""Operations of one client process; then another takes its place."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where clients find a table, with a relay in between, and without."""

    address: str
    endpoint: str = ""
    direct: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    operations: int
    unknown: int
    killed: int
    stopped: int
    anomalies: tuple[str, ...]
    seconds: float


@contextmanager
def place_of(store: str, seed: int, url: str | None = None) -> Iterator[Place]:
    """Yield where clients find a store: the one at a URL, or one that is run for this."""
    with ExitStack() as stack:
        if store == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            place = Place(f"sqlite:///{folder}/leases.db")
        elif store == "postgresql":
            dsn = url or stack.enter_context(servers.postgresql()).dsn
            port = dsn.rpartition(":")[2].partition("/")[0]
            relay = stack.enter_context(Relay(int(port), seed))
            place = Place(dsn.replace(f":{port}/", f":{relay.port}/"), direct=dsn)
        else:
            url = url or stack.enter_context(servers.dynamodb_local()).endpoint_url
            relay = stack.enter_context(Relay(int(url.rpartition(":")[2].strip("/")), seed))
            place = Place(
                f"dynamodb://leases-{uuid.uuid4().hex}", f"http://127.0.0.1:{relay.port}", url
            )
        _prepare(place)
        yield place


def attack(
    store: str, operations: int, seed: int, url: str | None = None, seconds: float = float("inf")
) -> Report:
    """Run clients until so many operations were answered or time is up, and judge them all."""
    began, random = time.monotonic(), Random(seed)
    killed = stopped = started = 0
    with tempfile.TemporaryDirectory() as folder, place_of(store, seed, url) as place:
        running: list[BaseProcess] = []
        made, places = 0, dict[Path, int]()
        try:
            while True:
                running = [client for client in running if client.is_alive()]
                made += _count_new(Path(folder), places)
                if made >= operations or time.monotonic() > began + seconds:
                    break
                while len(running) < CLIENTS:
                    started += 1
                    running.append(_start(place, f"c{started}", seed + started, folder))
                time.sleep(0.5 * random.random())
                victim = random.choice(running)
                match random.randrange(10):
                    case 0:
                        victim.kill()
                        killed += 1
                    case 1:
                        _pause(victim, 0.5 * random.random())
                        stopped += 1
        finally:
            for client in running:
                client.kill()
                client.join()
        histories = read_logs(Path(folder))
    seen = [operation for history in histories.values() for operation in history]
    found = tuple(f"{row}: {what}" for row, h in histories.items() if (what := anomaly(h)))
    unknown = sum(operation.outcome is Outcome.UNKNOWN for operation in seen)
    return Report(len(seen), unknown, killed, stopped, found, time.monotonic() - began)


def read_logs(folder: Path) -> dict[str, list[Operation]]:
    """Return the history of each row. A call without an answer in the log is unknown."""
    histories: dict[str, list[Operation]] = {}
    for log in sorted(folder.iterdir()):
        call: dict[str, Any] | None = None
        for line in log.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # its writer was killed in the middle of it
            if "row" in entry:
                _close(call, {}, histories)
                call = entry
            elif call is not None:
                _close(call, entry, histories)
                call = None
        _close(call, {}, histories)
    return histories


def _close(
    call: dict[str, Any] | None, answer: dict[str, Any], into: dict[str, list[Operation]]
) -> None:
    if call is not None:
        operation = Operation(
            call["began"], answer.get("ended", float("inf")),
            Outcome(answer.get("outcome", "unknown")), answer.get("read"),
            call.get("expected"), call.get("written"),
        )  # fmt: skip
        into.setdefault(call["row"], []).append(operation)


def _count_new(folder: Path, places: dict[Path, int]) -> int:
    """Return how many were answered since the last count; `places` are the ends of the logs."""
    count = 0
    for log in folder.iterdir():
        with log.open("rb") as lines:
            lines.seek(places.get(log, 0))
            read = lines.read()
        whole = read[: read.rfind(b"\n") + 1]
        places[log] = places.get(log, 0) + len(whole)
        count += whole.count(b'"read"')
    return count


def _start(place: Place, name: str, seed: int, folder: str) -> BaseProcess:
    """Start a client, as a copy of a process that has imported everything before."""
    stream = Path(folder).name  # rows of its own in a table that others use too
    arguments = (place.address, place.endpoint, stream, name, _BURST, seed, f"{folder}/{name}")
    client = _CLIENTS.Process(target=run_client, args=arguments, daemon=True)
    client.start()
    return client


def _pause(client: BaseProcess, seconds: float) -> None:
    if client.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(client.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(client.pid, signal.SIGCONT)


def _prepare(place: Place) -> None:
    access = Access(endpoint_url=place.direct, region="us-east-1") if place.endpoint else None
    address = place.address if place.endpoint else place.direct or place.address
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "a")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "b")
    table = open_table(address, access)
    table.prepare()
    table.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=STORES)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each store")
    chosen = parser.parse_args()
    failed = 0
    for store in chosen.stores:
        report = attack(store, chosen.operations, chosen.seed, seconds=chosen.seconds)
        failed += bool(report.anomalies)
        print(
            f"{store}: {report.operations} operations in {report.seconds:.0f} s, {report.unknown} "
            f"without an answer; {report.killed} clients killed, {report.stopped} stopped; "
            f"{len(report.anomalies)} anomalies {'; '.join(report.anomalies)}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
