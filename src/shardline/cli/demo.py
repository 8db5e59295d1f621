"""`shardline demo`: the whole promise on one machine, in about a minute. Nothing is staged."""

import random
import tempfile
import threading
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardline.cli.demo_readings import Readings
from shardline.cli.program import ExitCode
from shardline.dashboard.changes import named
from shardline.errors import ConfigurationError, ShardlineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.cli.demo_outcome import Outcome
    from shardline.cli.demo_screen import Screen
    from shardline.cli.demo_workers import Worker
    from shardline.core.promise import Verdict
    from shardline.local.traffic import Traffic

_STREAM = "demo"
_PATIENCE_SECONDS = 300.0
_LOOK_SECONDS = 0.3


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Fewer reshards and keys, for CI.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on watching the page afterwards, until Ctrl-C.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Which shards split and merge.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what happens as lines of JSON, the verdict last.")
    ] = False,
) -> None:
    """Read a stream that splits and merges with two Spark workers, kill one, and be judged.

    Starts the embedded service, two workers (`shardline run`) and writers of numbered events;
    reshards, kills a worker with kill -9, stops the other as a deployment would, and lets the
    checker count what was lost or out of order. No AWS, no Docker.
    """
    _require_what_it_needs()
    from shardline.cli.demo_screen import screen_for

    with ExitStack() as cleaning:
        folder = Path(cleaning.enter_context(tempfile.TemporaryDirectory(prefix="shardline-demo-")))
        screen = screen_for(as_json=as_json)
        with screen:
            story = _Story(
                cleaning, folder, screen, reshards=4 if fast else 8, keys=40 if fast else 200
            )
            outcome = story.tell(random.Random(seed))  # noqa: S311 - which shards, not secrets
        screen.end(outcome)
        if keep:
            screen.keep(story.page_url)
            threading.Event().wait()
        raise typer.Exit(ExitCode.OK if outcome.verdict.kept else ExitCode.FAILED)


def _require_what_it_needs() -> None:
    for module in ("pyspark", "aiohttp"):
        if find_spec(module) is None:
            raise ConfigurationError(
                f"the demo needs {module}, which is not installed: pip install 'shardline[all]'"
            )


class _Story:
    """The demo, step by step."""

    def __init__(
        self, cleaning: ExitStack, folder: Path, screen: "Screen", *, reshards: int, keys: int
    ) -> None:
        from shardline.cli.demo_picture import Picture
        from shardline.dashboard.server import PageServer
        from shardline.dashboard.watch import LiveWatch
        from shardline.leases.opening import open_table
        from shardline.local.service import Service
        from shardline.services.connecting import connect

        self._began = time.monotonic()
        self._cleaning, self._folder, self._screen = cleaning, folder, screen
        self._reshards, self._keys = reshards, keys
        self._service: Service = cleaning.enter_context(Service())
        self._client = self._service.client("kinesis")
        self._client.create_stream(StreamName=_STREAM, ShardCount=4)
        self._lease_table = f"sqlite:///{folder}/leases.db"
        table = open_table(self._lease_table)
        table.prepare()
        address = f"kinesis://{_STREAM}"
        self._watch = LiveWatch(
            address, connect(address, endpoint_url=self._service.endpoint_url), table, "demo"
        )
        self.page_url = cleaning.enter_context(PageServer(self._watch)).url
        self._picture: Picture = Picture(page=self.page_url)
        self._traffic: Traffic | None = None
        self._workers: list[Worker] = []
        self._readings = Readings()
        self._resharded = 0
        self._fail_over_seconds: float | None = None
        self._say(f"a Kinesis of our own at {self._service.endpoint_url}, 4 shards")
        self._say(f"all of this as a page: {self.page_url}")

    def tell(self, rng: random.Random) -> "Outcome":
        """Run the whole story and return what came of it."""
        from shardline.cli.demo_outcome import Outcome
        from shardline.local.traffic import Traffic

        doomed, heir = self._start("ada"), self._start("grace")
        self._say("two Spark workers start, ada and grace; that takes some seconds")
        self._until(lambda: bool(self._watch.snapshot().workers), "starting Spark")
        keys = [f"key-{n}" for n in range(self._keys)]
        traffic = Traffic(self._client, _STREAM, keys, writers=4, pause_seconds=0.005).start()
        self._traffic = traffic
        self._cleaning.callback(traffic.end)
        self._say(f"4 writers put numbered events under {self._keys} keys")
        self._until(lambda: bool(doomed.log.lines and heir.log.lines), "starting Spark")
        self._picture.workers.update(ada="reads", grace="reads")
        self._say("both workers read")
        self._next_step()
        for _ in range(self._reshards // 2):
            self._reshard(rng)
        self._next_step()
        self._kill(doomed, heir)
        self._next_step()
        for _ in range(self._reshards - self._reshards // 2):
            self._reshard(rng)
        self._next_step()
        traffic.stop()
        self._say(f"the writers stop after {traffic.count:,} events")
        self._until(lambda: self._readings.count >= traffic.count, "catching up")
        self._next_step()
        clean_stop_seconds = self._stop(heir)
        verdict = self._judge(traffic)
        self._watch.judge(verdict)
        self._next_step()
        return Outcome(
            verdict,
            self._resharded,
            self._fail_over_seconds,
            clean_stop_seconds,
            time.monotonic() - self._began,
        )

    def _start(self, name: str) -> "Worker":
        from shardline.cli.demo_workers import Worker

        worker = Worker(
            name,
            self._folder,
            stream=f"kinesis://{_STREAM}",
            endpoint_url=self._service.endpoint_url,
            lease_table=self._lease_table,
        )
        self._cleaning.callback(worker.kill)
        self._workers.append(worker)
        self._picture.workers[name] = "starts"
        return worker

    def _reshard(self, rng: random.Random) -> None:
        from shardline.local.traffic import reshard_once

        reshard_once(self._client, _STREAM, rng, most_open=6)  # what it did is seen by watching
        self._resharded += 1
        written = self._traffic.count if self._traffic else 0
        self._until(lambda: self._readings.count >= written, "reading through a reshard")

    def _kill(self, doomed: "Worker", heir: "Worker") -> None:
        held = {s.id for s in self._watch.snapshot().shards if (s.owner or "").startswith("ada/")}
        doomed.kill()
        killed_at, began = time.time(), time.monotonic()
        self._picture.workers["ada"] = "killed"
        self._say(f"kill -9 of ada, which holds {named(sorted(held)) or 'nothing'}")

        def taken_over() -> bool:
            return not held or any(
                line.shard_id in held and line.at > killed_at for line in heir.log.lines
            )

        self._until(taken_over, "failing over")
        self._fail_over_seconds = time.monotonic() - began
        self._say(f"grace reads on with ada's shards after {self._fail_over_seconds:.1f} s")

    def _stop(self, worker: "Worker") -> float:
        began = time.monotonic()
        self._say(f"SIGTERM to {worker.name}, as a deployment sends it")
        worker.ask_to_stop()
        worker.wait(60)
        seconds = time.monotonic() - began
        self._picture.workers[worker.name] = "stopped"
        self._say(f"{worker.name}: {worker.last_words()}")
        return seconds

    def _until(self, done: "Callable[[], bool]", doing: str) -> None:
        """Draw and read the logs until something is so; a worker that dies ends the demo."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            time.sleep(_LOOK_SECONDS)
            self._draw()
            for worker in self._workers:
                if not worker.alive and self._picture.workers[worker.name] != "killed":
                    raise ShardlineError(f"worker {worker.name} ended: {worker.last_words()}")
            if time.monotonic() > deadline:
                raise ShardlineError(f"{doing} took longer than {_PATIENCE_SECONDS:.0f} s")

    def _say(self, text: str) -> None:
        """Tell it where everything else that happens is told: in what is watched."""
        self._watch.note(text)
        self._draw()

    def _next_step(self) -> None:
        self._picture.step += 1
        self._draw()

    def _draw(self) -> None:
        picture, now = self._picture, time.monotonic()
        for worker in self._workers:
            self._readings.add(worker.log.read_on(), now)
        picture.seconds = now - self._began
        picture.written = self._traffic.count if self._traffic else 0
        picture.read = self._readings.count
        picture.shard_rates = self._readings.rates(now)
        picture.records_per_second = sum(picture.shard_rates.values())
        picture.snapshot = self._watch.snapshot()
        self._screen.show(picture)

    def _judge(self, traffic: "Traffic") -> "Verdict":
        from shardline.cli.demo_workers import tell
        from shardline.core.promise import PromiseChecker

        checker = PromiseChecker()
        for shard in self._client.list_shards(StreamName=_STREAM)["Shards"]:
            parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
            checker.shard(shard["ShardId"], [parent for parent in parents if parent])
        traffic.tell(checker)
        tell(checker, [worker.log for worker in self._workers])
        return checker.verdict()
