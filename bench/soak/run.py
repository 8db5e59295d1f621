"""The run itself: starts the processes, disturbs them, samples them, and stops them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from bench.soak.history import EVENTS, SHARDS, WRITTEN, judge
from bench.soak.samples import SAMPLES, LineCounter, samples_of_trees
from bench.soak.writer import Writer
from bench.workload.connection import Connection
from bench.workload.service import Kinesis
from shardline.cli.demo.recorder import LOG_VARIABLE
from shardline.local.traffic import reshard_once
from shardline.local.whole_answers import repeat_cut_answers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STREAM: Final = "orders"
WORKERS: Final = ("ada", "grace")
SERVICE: Final = "service"
OPEN_SHARDS: Final = 8

SAMPLE_SECONDS: Final = 5.0
RESHARD_SECONDS: Final = 180.0
CLOCK_SECONDS: Final = 60.0
CLOCK_STEP_SECONDS: Final = 2 * 3600
STORM_EVERY_SECONDS: Final = 600.0
STORM_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 60.0


class Soak:
    """One soak in a folder, which is emptied first."""

    def __init__(self, folder: Path, seconds: float, records_per_second: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder, self._seconds, self._rate = folder.resolve(), seconds, records_per_second
        self._rng = random.Random(1)
        self._ending = False
        self._roots: dict[str, int] = {}
        self._shards: set[str] = set()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Run for the time asked for, then let the workers catch up and stop all."""
        self._began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(self._kill_all)
            service = Kinesis(self._start_service())
            repeat_cut_answers(service.client)
            self._client, self._control = service.client, Connection(service.endpoint_url)
            service.wait_until_active(STREAM)
            self._note_shards()
            for name in WORKERS:
                self._start_worker(name, service.endpoint_url)
            writer = Writer(service.endpoint_url, STREAM, self._rate, self._folder / WRITTEN)
            self._disturb(writer)
            writer.stop()
            self._note_shards()
            self._drain()
            self._stop_workers()

    def end_early(self) -> None:
        """End the run within a few seconds. May be called by a signal handler."""
        self._ending = True

    # --- processes ------------------------------------------------------------------------------

    def _start_service(self) -> str:
        command = ("local", "--port", "0", "--json", "--strict", "--stream", f"{STREAM}:4")
        process = self._start(SERVICE, command, subprocess.PIPE)
        assert process.stdout is not None
        return str(json.loads(process.stdout.readline())["endpoint_url"])

    def _start_worker(self, name: str, endpoint_url: str) -> None:
        self._start(
            name,
            (
                *("run", "shardline.cli.demo.recorder:Recorder", "--engine", "process"),
                *("--stream", f"kinesis://{STREAM}", "--app", "soak", "--name", name),
                *("--lease-table", f"sqlite:///{self._folder}/leases.db"),
                *("--endpoint-url", endpoint_url, "--status-seconds", "60"),
            ),
            None,
        )

    def _start(
        self, name: str, command: tuple[str, ...], output: int | None
    ) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "shardline", *command],
                stdout=output or log,
                stderr=log,
                env=os.environ | {LOG_VARIABLE: str(self._folder / f"{name}.jsonl")},
                start_new_session=True,
            )
        self._processes[name], self._roots[name] = process, process.pid
        return process

    def _stop_workers(self) -> None:
        for name in WORKERS:
            self._processes[name].terminate()
        for name in WORKERS:
            code = self._processes[name].wait(_STOP_SECONDS)
            self._note("stopped", worker=name, exit_code=code)

    def _kill_all(self) -> None:
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    # --- what happens to them -------------------------------------------------------------------

    def _disturb(self, writer: Writer) -> None:
        lines = {name: LineCounter(self._folder / f"{name}.log") for name in self._processes}
        ended_storm: list[float] = []
        with (self._folder / SAMPLES).open("w") as samples:

            def sample() -> None:
                self._require_alive(writer)
                samples.write(json.dumps(self._sample(writer, lines)) + "\n")
                samples.flush()

            def storm() -> None:
                fault = {"kind": "throttle", "times": None, "probability": 0.5}
                self._control.control("faults/add", json.dumps(fault).encode())
                self._note("storm")
                ended_storm.append(time.monotonic() + self._at_most(STORM_SECONDS, 12))

            def calm() -> None:
                if ended_storm and time.monotonic() > ended_storm[0]:
                    ended_storm.clear()
                    self._control.control("faults/clear", b"{}")
                    self._note("calm")

            repeated: list[tuple[float, Callable[[], None]]] = [
                (self._at_most(SAMPLE_SECONDS, 20), sample),
                (self._at_most(RESHARD_SECONDS, 6), self._reshard),
                (self._at_most(CLOCK_SECONDS, 6), self._advance_clock),
                (self._at_most(STORM_EVERY_SECONDS, 3), storm),
                (0.0, calm),
            ]
            due = [self._began + seconds for seconds, _ in repeated]
            while time.monotonic() - self._began < self._seconds and not self._ending:
                for number, (seconds, action) in enumerate(repeated):
                    if time.monotonic() >= due[number]:
                        due[number] = max(due[number] + seconds, time.monotonic())
                        action()
                time.sleep(0.5)
            self._control.control("faults/clear", b"{}")

    def _at_most(self, seconds: float, times: int) -> float:
        """Return an interval; in a short run a shorter one, so that each thing happens."""
        return min(seconds, self._seconds / times)

    def _drain(self) -> None:
        """Wait until all that was written is delivered; the verdict says what is missing."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while judge(self._folder, WORKERS).lost and time.monotonic() < deadline:
            time.sleep(1)

    def _require_alive(self, writer: Writer) -> None:
        writer.require_alive()
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended: see {self._folder}/{name}.log")

    def _sample(self, writer: Writer, lines: dict[str, LineCounter]) -> dict[str, Any]:
        table = sum(path.stat().st_size for path in self._folder.glob("leases.db*"))
        return {
            "at": round(time.monotonic() - self._began, 1),
            "processes": samples_of_trees(self._roots),
            "log_lines": {name: counter.count() for name, counter in lines.items()},
            "lease_table_kib": table // 1024,
            "written": writer.written,
            "refused": writer.refused,
            "shards": len(self._shards),
        }

    def _reshard(self) -> None:
        try:
            done = reshard_once(self._client, STREAM, self._rng, most_open=OPEN_SHARDS)
        except self._client.exceptions.ClientError as error:  # in a storm
            done = f"not resharded: {error}"
        self._note("reshard", done=done)
        self._note_shards()

    def _advance_clock(self) -> None:
        self._control.control("clock/advance", b'{"seconds": %d}' % CLOCK_STEP_SECONDS)

    def _note_shards(self) -> None:
        """Write down the parents of shards that are listed for the first time."""
        with suppress(self._client.exceptions.ClientError):  # in a storm: another time
            pages = self._client.get_paginator("list_shards").paginate(StreamName=STREAM)
            shards = [shard for page in pages for shard in page["Shards"]]
            with (self._folder / SHARDS).open("a") as file:
                for shard in shards:
                    if shard["ShardId"] not in self._shards:
                        self._shards.add(shard["ShardId"])
                        parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
                        line = {"id": shard["ShardId"], "parents": [p for p in parents if p]}
                        file.write(json.dumps(line) + "\n")

    def _note(self, event: str, **more: object) -> None:
        line = {"at": round(time.monotonic() - self._began, 1), "event": event, **more}
        with (self._folder / EVENTS).open("a") as file:
            file.write(json.dumps(line) + "\n")
