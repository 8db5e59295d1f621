"""`shardline run` and `shardline demo` as programs use them: lines of JSON, and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from shardline.cli.demo.recorder import LOG_VARIABLE
from tests.spark.streams import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.spark.streams import Stream

DEADLINE_SECONDS = 300


@contextmanager
def running(folder: Path, *typed: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "shardline", *typed, "--json"],
        cwd=folder,
        env=os.environ | {LOG_VARIABLE: str(folder / "log.jsonl")},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with process:
            yield process
            process.wait(DEADLINE_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def worker(stream: Stream) -> list[str]:
    return [
        *("run", "shardline.cli.demo.recorder:Recorder"),
        *("--stream", f"kinesis://{stream.name}", "--app", "billing", "--master", "local[1]"),
        *("--tasks", "1"),
        *("--endpoint-url", stream.endpoint_url, "--status-seconds", "1"),
    ]


def test_a_run_reports_its_figures_and_how_it_ended(stream: Stream, tmp_path: Path) -> None:
    stream.put(3)
    with running(tmp_path, *worker(stream)) as process:
        told = events_of(process)
        started = next(told)
        assert (started["event"], started["app"], started["workers"]) == ("started", "billing", 1)
        assert next(told)["event"] == "new app"
        status = next(event for event in told if event.get("held") == 2)
        assert (status["event"], status["started"], status["shards"]) == ("status", 1, 2)
        log = tmp_path / "log.jsonl"
        wait_until(lambda: log.exists() and log.read_text().count("delivered") > 0, "a delivery")
        process.send_signal(signal.SIGTERM)
        rest = [event for event in told if event["event"] != "status"]
    assert [event["event"] for event in rest] == ["stopping", "stopped"]
    assert rest[-1]["handed_back"] is True
    assert process.returncode == 0


def test_the_demo_ends_with_a_verdict_of_nothing_lost_and_nothing_out_of_order(
    tmp_path: Path,
) -> None:
    with running(tmp_path, "demo", "--fast") as process:
        told = list(events_of(process))
    verdict = told[-1]
    assert verdict["event"] == "verdict"
    assert verdict["kept"] is True
    assert (verdict["lost"], verdict["out_of_order"], verdict["reshards"]) == (0, 0, 4)
    assert verdict["read"] == verdict["written"] > 0
    assert {"split", "merged"} & {event["event"] for event in told}
    assert process.returncode == 0
