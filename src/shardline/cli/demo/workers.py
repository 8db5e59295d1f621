"""The demo's workers: real processes that run `shardline run`, and the logs of what they got."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shardline.cli.demo.recorder import HANG_VARIABLE, LOG_VARIABLE
from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef


@dataclass
class Line:
    """One line of a worker's log."""

    at: float
    what: str
    shard_id: str
    owner: str
    fence: Fence
    records: list[RecordRef]


@dataclass
class Log:
    """A worker's log, read as it grows."""

    path: Path
    owner: str
    _read_bytes: int = 0
    lines: list[Line] = field(default_factory=list)

    def read_on(self) -> list[Line]:
        """Return the whole lines that came since the last time."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read_bytes)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        fresh = [_parse(line, self.owner) for line in whole.splitlines()]
        self.lines.extend(fresh)
        return fresh


class Worker:
    """One worker process with its children, in a session of its own so that all can be killed."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        stream: str,
        endpoint_url: str,
        lease_table: str,
        consumer: str = "shardline.cli.demo.recorder:Recorder",
        more: "Sequence[str]" = (),
    ) -> None:
        self.name = name
        self.log = Log(folder / f"{name}.jsonl", name)
        self._output = (folder / f"{name}.log").open("w")
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [
                *(sys.executable, "-m", "shardline", "run"),
                consumer,
                *("--stream", stream, "--app", "demo", "--name", name),
                *("--lease-table", lease_table, "--endpoint-url", endpoint_url),
                *("--master", "local[1]", "--tasks", "1"),
                *("--lease-seconds", "5", "--status-seconds", "2"),
                *more,
            ],
            env=os.environ
            | {LOG_VARIABLE: str(self.log.path), HANG_VARIABLE: str(folder / "hang")},
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        """Return true while its process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it with all its children by kill -9: no lease is released."""
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ask_to_stop(self) -> None:
        """Send SIGTERM, as a deployment does."""
        if self.alive:
            self._process.terminate()

    def wait(self, timeout_seconds: float) -> int:
        """Wait for its end; one that takes longer is killed."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
        finally:
            self._output.close()

    def last_line(self) -> str:
        """Return the last line that it printed."""
        lines = Path(self._output.name).read_text().strip().splitlines()
        return lines[-1] if lines else "no output"


def report_deliveries(checker: PromiseChecker, logs: list[Log]) -> None:
    """Report all deliveries to the checker in the order in which they happened, by one clock."""
    for line in sorted((line for log in logs for line in log.lines), key=lambda line: line.at):
        if line.what == "delivered":
            checker.delivered(line.shard_id, line.fence, line.records, line.owner)


def _parse(line: bytes, owner: str) -> Line:
    value = json.loads(line)
    records = [
        RecordRef(key, int(number))
        for key, number in zip(value.get("keys", ()), value.get("numbers", ()), strict=True)
    ]
    fence = Fence(*value["fence"]) if "fence" in value else Fence()
    return Line(value["at"], value["what"], value["shard"], owner, fence, records)
