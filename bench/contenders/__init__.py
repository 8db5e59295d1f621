"""Who is measured: each is a command that reads a stream and writes its deliveries down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.contenders import kcl
from bench.environment import python_with
from bench.workload.deliveries import DeliveryLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCRIPTS: Final = Path(__file__).parent
BLOOP: Final = "bloop==3.1.1"


@dataclass(frozen=True, slots=True)
class Place:
    """What a contender reads, and where it writes."""

    endpoint_url: str
    stream: str
    shards: int
    folder: Path
    """For deliveries and checkpoints."""
    app: str = "bench"
    worker: str = "worker-1"
    shared: Path | None = None
    """For the leases of workers that share a stream, if it is another folder."""
    detail: bool = False

    @property
    def lease_table(self) -> str:
        """The address of our lease table."""
        return f"sqlite:///{self.shared or self.folder}/leases.db"

    @property
    def arguments(self) -> list[str]:
        """What every contender's command ends with."""
        where = [self.endpoint_url, self.stream, str(self.folder), self.app, self.worker]
        return [*where, "detail" if self.detail else "-"]


@dataclass(frozen=True, slots=True)
class Contender:
    """How to start somebody."""

    title: str
    command: Callable[[Place], list[str]]
    expected_shards: int
    """Where the search for the full shards that it follows begins."""
    target_shards: int | None = None
    """Full shards of its target, which are measured wherever the search goes."""
    shared: bool = False
    """True if several workers can share a stream, so that a kill or a deploy is survived."""
    ours: bool = False
    pushed: bool = False
    """True if it reads by enhanced fan-out."""
    slow_start: bool = False
    """True if a new app's first record takes a minute: it is waited for in `failover` only."""
    main: bool = True
    """False for those that are measured after the others."""
    delay_only: bool = False
    """True if it is measured in `delay` and in no other part, for the sake of time."""
    prepare: Callable[[Place], None] = lambda _: None


def _script(name: str, *more: str) -> Callable[[Place], list[str]]:
    return lambda place: [sys.executable, str(SCRIPTS / name), *place.arguments, *more]


def _run(place: Place) -> list[str]:
    command = [sys.executable, "-m", "shardline", "run", "shardline_consumer:Recorder"]
    command += ["--engine", "process", "--stream", f"kinesis://{place.stream}"]
    command += ["--app", place.app, "--name", place.worker, "--endpoint-url", place.endpoint_url]
    return [*command, "--lease-table", place.lease_table]


def _run_pushed(place: Place) -> list[str]:
    return [*_run(place), "--fan-out", place.app]


def _async_kinesis_python() -> Path:
    return python_with("async-kinesis", "async-kinesis==3.0.1")


def bloop_python() -> Path:
    """Return the Python of Bloop, which `bench.parts.stream` compares with."""
    return python_with("bloop", BLOOP)


INSTALLED: Final[dict[str, Callable[[], object]]] = {
    "KCL": kcl.install,
    "KCLPY": kcl.kclpy_folder,
    "async-kinesis": _async_kinesis_python,
    "Bloop": bloop_python,
}
"""What `python -m bench --install` provides, and else the first piece that needs it."""


def _async_kinesis(place: Place) -> list[str]:
    return [
        str(_async_kinesis_python()),
        str(SCRIPTS / "async_kinesis_reader.py"),
        *place.arguments,
    ]


def _prepare_kcl(place: Place) -> None:
    kcl.prepare(place.app, place.shards)


CONTENDERS: Final = {
    "consumer-process": Contender(
        "shardline run --engine process", _run, 96, target_shards=16, shared=True, ours=True
    ),
    "consumer-spark": Contender(
        "shardline consumer on Spark", _script("shardline_consumer.py"), 88, shared=True, ours=True
    ),
    "consumer-fan-out": Contender(
        "shardline run --engine process, fan-out", _run_pushed, 96, ours=True, pushed=True
    ),
    "source": Contender(
        "shardline source, a query",
        _script("shardline_source.py"),
        8,
        target_shards=8,
        ours=True,
    ),
    "kcl-java": Contender(
        f"KCL {kcl.VERSION}, Java",
        lambda place: kcl.java_command(place.arguments),
        32,
        shared=True,
        slow_start=True,
        prepare=_prepare_kcl,
    ),
    "kclpy": Contender(
        f"KCLPY {kcl.KCLPY_VERSION}",
        lambda place: kcl.kclpy_command(place.arguments),
        24,
        shared=True,
        slow_start=True,
        prepare=_prepare_kcl,
    ),
    "boto3": Contender("boto3 loop, a thread a shard", _script("boto3_threads.py"), 32),
    "stream": Contender(
        "shardline next(stream)", _script("shardline_next.py"), 96, ours=True, main=False
    ),
    "async-kinesis": Contender("async-kinesis 3.0.1", _async_kinesis, 2, main=False),
    "kcl-java-fan-out": Contender(
        f"KCL {kcl.VERSION}, Java, fan-out",
        lambda place: kcl.java_command(place.arguments, "fan-out"),
        16,
        pushed=True,
        slow_start=True,
        main=False,
        delay_only=True,
        prepare=_prepare_kcl,
    ),
    "kclpy-fan-out": Contender(
        f"KCLPY {kcl.KCLPY_VERSION}, fan-out",
        lambda place: kcl.kclpy_command(place.arguments, "FANOUT"),
        10,
        pushed=True,
        slow_start=True,
        main=False,
        delay_only=True,
        prepare=_prepare_kcl,
    ),
}


_AFTER_THE_LOAD: Final = ("nice", "-n", "10")
"""Writer and service come first where the cores are full: then it is the reader that is the limit,
and not how fast it is written to."""


class Running:
    """A started contender with all its processes."""

    def __init__(self, contender: Contender, place: Place) -> None:
        self.log = DeliveryLog(place.folder)
        self._folder = place.folder
        self._output = place.folder / f"{place.worker}.log"
        with self._output.open("w") as out:
            self.process = subprocess.Popen(
                [*_AFTER_THE_LOAD, *contender.command(place)],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **_environment(place)},
            )
        self.started_at = time.time()

    @property
    def ready_at(self) -> float | None:
        """When a Spark session was warm, if there is one."""
        ready = self._folder / "ready"
        return float(ready.read_text()) if ready.exists() else None

    def check(self) -> None:
        """Raise if it has ended."""
        if self.process.poll() is not None:
            lines = [x for x in self._output.read_text(errors="replace").splitlines() if x.strip()]
            raise RuntimeError(f"it ended: {lines[-1][:160] if lines else 'without a word'}")

    def stop(self) -> None:
        """Ask it to stop, as a deployment does."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _environment(place: Place) -> dict[str, str]:
    paths = [str(SCRIPTS), str(kcl.kclpy_folder()), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "BENCH_FOLDER": str(place.folder),
        "BENCH_LEASE_TABLE": place.lease_table,
        "BENCH_DETAIL": "detail" if place.detail else "-",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def running(contender: Contender, place: Place) -> Iterator[Running]:
    """Run a contender; it is killed at the end."""
    contender.prepare(place)
    started = Running(contender, place)
    try:
        yield started
    finally:
        started.kill()
