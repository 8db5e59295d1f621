"""A Spark task that is a worker. What this file imports delays the start of the worker's runner."""

from __future__ import annotations

import pickle
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGN_SECONDS: Final = 20.0
"""How often a quiet task yields something, so that nothing takes it for idle."""


def keep_in_task(job: bytes, index: int, attempt: int) -> Iterator[str]:
    """Be a worker in a task; yield an empty text now and then, and last what failed, if anything.

    `job` is a pickled `Job`: what it needs is imported after the runner was started. An exception
    does not leave the task: the launcher reads it and starts the worker again.
    """
    from shardline.consumer.link import RunnerProcesses
    from shardline.consumer.logs import log_to_stderr
    from shardline.spark.quiet_workers import end_quietly

    log_to_stderr()
    end_quietly()
    failures: list[str] = []

    def run() -> None:
        try:
            runners = RunnerProcesses(_path_of_runners())
            from shardline.consumer.keeper import keep  # its imports take as long as the runner's

            keep(pickle.loads(job), index, attempt, runners=runners)  # noqa: S301 - the launcher's
        except BaseException as error:
            failures.append(f"{type(error).__name__}: {error}")

    worker = threading.Thread(target=run, name=f"worker {index}", daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(_SIGN_SECONDS)
        yield ""
    yield from failures


def _path_of_runners() -> list[str]:
    """Return this task's module path, with an installed pyspark before Spark's own archive of it.

    A runner unpickles its consumer with a module of pyspark. The archive holds no compiled code,
    and takes a second to import.
    """
    try:
        same = version("pyspark") == sys.modules["pyspark"].__version__
    except (PackageNotFoundError, KeyError):
        same = False
    archives = [place for place in sys.path if same and place.endswith("pyspark.zip")]
    return [place for place in sys.path if place not in archives] + archives
