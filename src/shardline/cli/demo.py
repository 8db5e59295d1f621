"""`shardline demo`: the whole promise on one machine, in about a minute. Nothing is staged."""

import random
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardline.cli.program import ExitCode
from shardline.errors import ShardlineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.cli.demo_screen import Screen
    from shardline.cli.demo_workers import Worker
    from shardline.core.promise import Verdict
    from shardline.local.traffic import Traffic

_STREAM = "demo"
_PATIENCE_SECONDS = 300.0


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Fewer reshards and keys, for CI.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on watching the page afterwards, until Ctrl-C.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Which shards split and merge.")] = 1,
) -> None:
    """Read a stream that splits and merges with two Spark workers, kill one, and be judged.

    Starts the embedded service, two workers (`shardline run`) and writers of numbered events;
    reshards, kills a worker with kill -9, stops the other as a deployment would, and lets the
    checker count what was lost or out of order. No AWS, no Docker.
    """
    from shardline.cli.demo_screen import Screen

    with ExitStack() as cleaning:
        folder = Path(cleaning.enter_context(tempfile.TemporaryDirectory(prefix="shardline-demo-")))
        screen = Screen()
        story = _Story(
            cleaning, folder, screen, reshards=4 if fast else 8, keys=40 if fast else 200
        )
        with screen:
            verdict = story.tell(random.Random(seed))  # noqa: S311 - which shards, not secrets
        screen.verdict(verdict, story.rows(verdict))
        if keep:
            typer.echo(f"The page goes on at {story.page_url} until Ctrl-C.")
            threading.Event().wait()
        raise typer.Exit(ExitCode.OK if verdict.kept else ExitCode.FAILED)


class _Story:
    """The demo, step by step."""

    def __init__(
        self, cleaning: ExitStack, folder: Path, screen: "Screen", *, reshards: int, keys: int
    ) -> None:
        from shardline.cli.demo_screen import Picture
        from shardline.dashboard.server import PageServer
        from shardline.dashboard.watch import LiveWatch
        from shardline.leases.opening import open_table
        from shardline.local.service import Service
        from shardline.services.connecting import connect

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
        self._say(f"the embedded service listens on {self._service.endpoint_url}, 4 shards")
        self.page_url = cleaning.enter_context(PageServer(self._watch)).url
        self._picture: Picture = Picture(page=self.page_url)
        self._workers: list[Worker] = []
        self._seen: set[tuple[str, int]] = set()
        self._resharded = 0
        self._fail_over_seconds: float | None = None
        self._hand_back_seconds: float | None = None

    def tell(self, rng: random.Random) -> "Verdict":
        """Run the whole story and return the checker's verdict."""
        from shardline.local.traffic import Traffic

        keys = [f"key-{n}" for n in range(self._keys)]
        traffic = Traffic(self._client, _STREAM, keys, writers=4, pause_seconds=0.005).start()
        self._cleaning.callback(traffic.end)
        self._say(f"4 writers write numbered events under {self._keys} keys")
        doomed, heir = self._start("ada"), self._start("grace")
        self._say("two Spark workers start, ada and grace (this takes some seconds)")
        self._until(lambda: bool(doomed.log.lines and heir.log.lines), "starting Spark", traffic)
        self._say("both workers read")
        for _ in range(self._reshards // 2):
            self._reshard(rng, traffic)
        self._kill(doomed, heir, traffic)
        for _ in range(self._reshards - self._reshards // 2):
            self._reshard(rng, traffic)
        traffic.stop()
        self._say(f"writing ends after {traffic.count:,} events; the rest is read")
        self._until(lambda: len(self._seen) >= traffic.count, "catching up", traffic)
        began = time.monotonic()
        heir.ask_to_stop()
        heir.wait(60)
        self._hand_back_seconds = time.monotonic() - began
        self._read_logs()
        self._say(f"grace stops: {heir.last_words()}")
        verdict = self._judge(traffic)
        self._watch.judge(verdict)
        return verdict

    def rows(self, verdict: "Verdict") -> list[tuple[str, str]]:
        """Return the lines of the verdict's table."""
        fail_over = self._fail_over_seconds
        return [
            ("written", f"{verdict.written:,}"),
            ("read", f"{verdict.delivered:,}"),
            ("lost", f"{verdict.lost:,}"),
            ("out of order", f"{verdict.out_of_order:,}"),
            ("repeated after the kill", f"{verdict.repeated:,}"),
            ("splits and merges survived", f"{self._resharded}"),
            ("fail-over after kill -9", "–" if fail_over is None else f"{fail_over:.1f} s"),
            ("clean stop of a worker", f"{self._hand_back_seconds or 0:.1f} s"),
        ]

    def _say(self, text: str) -> None:
        self._screen.say(text)
        self._watch.note(text)

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
        return worker

    def _reshard(self, rng: random.Random, traffic: "Traffic") -> None:
        from shardline.local.traffic import reshard_once

        self._say(reshard_once(self._client, _STREAM, rng, most_open=6))
        self._resharded += 1
        written = traffic.count
        self._until(lambda: len(self._seen) >= written, "resharding", traffic)

    def _kill(self, doomed: "Worker", heir: "Worker", traffic: "Traffic") -> None:
        held = {s.id for s in self._watch.snapshot().shards if (s.owner or "").startswith("ada/")}
        doomed.kill()
        killed_at, began = time.time(), time.monotonic()
        self._say(f"kill -9 of ada, which holds {len(held)} shards")

        def taken_over() -> bool:
            return not held or any(
                line.shard_id in held and line.at > killed_at for line in heir.log.lines
            )

        self._until(taken_over, "failing over", traffic)
        self._fail_over_seconds = time.monotonic() - began
        self._say(f"grace reads ada's shards after {self._fail_over_seconds:.1f} s")

    def _until(self, done: "Callable[[], bool]", phase: str, traffic: "Traffic") -> None:
        """Draw and read the logs until something is so; a worker that dies ends the demo."""
        self._picture.phase = phase
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            before, at = len(self._seen), time.monotonic()
            time.sleep(0.3)
            self._read_logs()
            self._picture.written = traffic.count
            self._picture.records_per_second = (len(self._seen) - before) / (time.monotonic() - at)
            self._picture.snapshot = self._watch.snapshot()
            self._screen.show(self._picture)
            for worker in self._workers[1:]:
                if not worker.alive:
                    raise ShardlineError(f"worker {worker.name} ended: {worker.last_words()}")
            if time.monotonic() > deadline:
                raise ShardlineError(f"{phase} took longer than {_PATIENCE_SECONDS:.0f} s")

    def _read_logs(self) -> None:
        for worker in self._workers:
            for line in worker.log.read_on():
                self._seen.update((line.shard_id, record.sequence) for record in line.records)
        self._picture.read = len(self._seen)

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
