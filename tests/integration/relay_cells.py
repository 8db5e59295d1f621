"""Two workers behind relays, whose connections to the stream or to the lease table meet a fate.

The tests run some cells; all of them, with workers in Spark:

    make relays        (python -m tests.integration.relay_cells --engine spark)
"""

# ruff: noqa: T201 - it prints its report

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from shardline.core.promise import PromiseChecker, RecordRef
from shardline.errors import PromiseBroken
from shardline.local.service import Service
from shardline.local.traffic import reshard_once
from tests import servers
from tests.integration.lease_places import lease_place
from tests.integration.worker_runs import LEASE_SECONDS, Run, Stage, wait_until
from tests.servers.relay import FATES, relay_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardline.core.promise import Verdict
    from shardline.local.traffic import Traffic
    from tests.servers.relay import Relay

LINKS: Final = ("stream", "table")
STRUCK_SECONDS: Final = 1.5 * LEASE_SECONDS
GRACE_SECONDS: Final = 6.0
STOP_MARGIN_SECONDS: Final = 5.0
"""For the process to end after its grace, on a busy machine: less than a second grace."""
RECOVERY_SECONDS: Final = 2 * LEASE_SECONDS + 15
"""What `make relays` allows on a quiet machine; a test waits longer, for it judges no times."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What happened in one cell."""

    recovered_seconds: float
    """From the end of the fate until one worker had delivered what was written by then."""
    stopped_seconds: float
    """From SIGTERM, under the fate, to the end of the process."""
    verdict: Verdict


class WorkerPair:
    """Two workers behind relays, and writers that are not."""

    def __init__(self, stage: Stage, relays: dict[str, Relay], engine: str) -> None:
        self._stage = stage
        self._relays = relays
        self._engine = engine
        self._numbers = iter(range(1, 1000))
        self._written: list[Traffic] = []
        self._kept = self._start()

    def strike(self, link: str, fate: str) -> Cell:
        """Let a link meet a fate, reshard and stop a worker meanwhile; judge all that happened."""
        stage = self._stage
        self._written.append(stage.write(keys=100, pause_seconds=0.02))
        stage.use(self)
        try:
            return self._strike(link, fate)
        finally:
            self._written[-1].end()

    def _strike(self, link: str, fate: str) -> Cell:
        stage, kept, stopped = self._stage, self._kept, self._start()
        began = time.time()
        wait_until(
            lambda: bool(stopped.shards_since(began) and kept.shards_since(began)),
            f"both deliver. They say:\n{kept.output[-3000:]}\n{stopped.output[-3000:]}",
        )
        with self._relays[link].struck(fate):
            struck_at = time.monotonic()
            # This seed splits rather than merges while there are few shards: both need one.
            reshard_once(stage.client, "orders", random.Random(2), most_open=4)
            time.sleep(max(0.0, struck_at + STRUCK_SECONDS - time.monotonic()))
            stopped_seconds = _stop(stopped)
        claims = "nothing to repeat" in stopped.output
        assert claims == (link == "stream"), f"how did it end?\n{stopped.output[-2000:]}"
        written = _Written()
        self.report_to(written)
        recovered_seconds = wait_until(
            lambda: written.records <= self._delivered(),
            f"what was written by then is delivered. The worker says:\n{kept.output[-2000:]}",
            RECOVERY_SECONDS + 25,
        )
        self._written[-1].stop()
        wait_until(stage.caught_up, "everything was delivered")
        return Cell(recovered_seconds, stopped_seconds, stage.verdict().require())

    def end(self) -> None:
        """Stop the writers."""
        for traffic in self._written:
            traffic.end()

    def report_to(self, checker: PromiseChecker) -> None:
        """Report what was written in all cells."""
        for traffic in self._written:
            traffic.report_to(checker)

    def _start(self) -> Run:
        more = ("--master", "local[1]", "--tasks", "1") if self._engine == "spark" else ()
        grace = ("--grace-seconds", str(GRACE_SECONDS), "--checkpoint-seconds", "1")
        name = f"worker-{next(self._numbers)}"
        return self._stage.start(name, *grace, *more, engine=self._engine)

    def _delivered(self) -> set[RecordRef]:
        for run in self._stage.runs:
            run.log.read_on()
        lines = (line for run in self._stage.runs for line in run.log.lines)
        return {record for line in lines for record in line.records}


class _Written(PromiseChecker):
    """Collects what was written up to now."""

    def __init__(self) -> None:
        super().__init__()
        self.records: set[RecordRef] = set()

    def wrote(self, shard_id: str, record: RecordRef) -> None:  # noqa: ARG002 - any shard
        self.records.add(record)


def _stop(run: Run) -> float:
    """Stop a run within its grace, and return how long that took."""
    began = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    try:
        run.process.wait(GRACE_SECONDS + STOP_MARGIN_SECONDS)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"it did not stop within its grace: {run.output[-2000:]}") from None
    return time.monotonic() - began


@contextmanager
def worker_pair(
    folder: Path, table: str, server_of: Callable[[str], Any], engine: str = "process"
) -> Iterator[WorkerPair]:
    """Provide two workers on a strict service and one of the tables that are servers."""
    with ExitStack() as stack:
        place = stack.enter_context(lease_place(table, folder, server_of))
        assert place.relay is not None
        service = stack.enter_context(Service(strict=True))
        relay = stack.enter_context(relay_to(urlsplit(service.endpoint_url).port or 0))
        stage = Stage(service, folder, 2, place)
        stack.callback(stage.close)
        stage.endpoint_url = f"http://127.0.0.1:{relay.port}"
        yield WorkerPair(stage, {"stream": relay, "table": place.relay}, engine)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="process", choices=("process", "spark"))
    parser.add_argument("--tables", nargs="*", default=("postgresql", "dynamodb"))
    parser.add_argument("--fates", nargs="*", default=tuple(FATES))
    parser.add_argument("--links", nargs="*", default=LINKS)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end the workers
    print("| table | link | fate | recovered | stopped | records | repeated | violations |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    failed = 0
    for table in chosen.tables:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:

            def server_of(name: str, stack: ExitStack = stack) -> Any:
                return stack.enter_context(getattr(servers, name)())

            pair = stack.enter_context(worker_pair(Path(folder), table, server_of, chosen.engine))
            for link in chosen.links:
                for fate in chosen.fates:
                    failed += not _print_cell(pair, table, link, fate)
    return 1 if failed else 0


def _print_cell(pair: WorkerPair, table: str, link: str, fate: str) -> bool:
    try:
        cell = pair.strike(link, fate)
    except (AssertionError, PromiseBroken) as error:
        print(f"| {table} | {link} | {fate} | {error}", flush=True)
        return False
    seen = cell.verdict
    print(
        f"| {table} | {link} | {fate} | {cell.recovered_seconds:.1f} s "
        f"| {cell.stopped_seconds:.1f} s | {seen.delivered} | {seen.repeated} | 0 |",
        flush=True,
    )
    return cell.recovered_seconds <= RECOVERY_SECONDS


if __name__ == "__main__":
    sys.exit(main())
