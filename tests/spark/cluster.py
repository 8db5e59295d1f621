"""A real standalone cluster of Spark on this machine, from the package: a master and workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from shardline.spark.java import java_home
from tests.servers.process import dying_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Cluster:
    master_url: str
    groups: tuple[int, ...]
    """The process groups of the master and the workers; executors belong to their worker's."""
    folder: Path
    """Where workers keep what their executors print: `work-*/app-*/*/stdout` and `stderr`."""

    def executors(self) -> list[int]:
        """Return the processes of the executors that run now."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                command = (entry / "cmdline").read_text()
                if os.getpgid(pid) in self.groups and "CoarseGrainedExecutorBackend" in command:
                    found.append(pid)
        return found


@contextmanager
def cluster(workers: int = 2, cores: int = 1) -> Iterator[Cluster]:
    """Run a cluster with some cores for each worker, and end all of it."""
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            # A port that was looked for beforehand could be taken meanwhile.
            master = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            started.append(_start("master.Master", master, folder))
            url = _url_in(Path(folder, "master.Master.log"), started[0])
            for n in range(workers):
                place = ["--host", "127.0.0.1", "--webui-port", "0", "-m", "2g"]
                arguments = [*place, "-c", str(cores), "-d", f"{folder}/work-{n}", url]
                started.append(_start("worker.Worker", arguments, folder))
            yield Cluster(url, tuple(process.pid for process in started), Path(folder))
        finally:
            for process in started:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _start(name: str, arguments: list[str], folder: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), f"{_PACKAGE}.{name}", *arguments]
    with Path(folder, f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            dying_with_parent(command),
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _url_in(log: Path, master: subprocess.Popen[bytes], seconds: float = 120) -> str:
    """Return the address that the master says it has, as soon as it says so."""
    deadline = time.monotonic() + seconds
    while True:
        said = log.read_text(errors="replace")
        if found := re.search(r"Starting Spark master at (spark://[\d.]+:\d+)\n", said):
            return found[1]
        ended = master.poll() is not None or time.monotonic() > deadline
        assert not ended, f"the master of the cluster did not start: {said[-2000:]}"
        time.sleep(0.1)
