"""What the demo does: traffic, two workers, a hang, reshards, a kill, a stop, and a verdict."""

import time
from typing import TYPE_CHECKING

from shardline.cli.demo.read_counts import ReadCounts
from shardline.errors import ShardlineError
from shardline.observation.names import shard_list

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from shardline.cli.demo.outcome import Outcome
    from shardline.cli.demo.screen import Screen
    from shardline.cli.demo.workers import Worker
    from shardline.core.promise import Verdict
    from shardline.local.traffic import Traffic

_STREAM = "demo"
_PATIENCE_SECONDS = 300.0
_POLL_SECONDS = 0.4


class Demo:
    """The demo, step by step."""

    def __init__(
        self,
        cleaning: "ExitStack",
        folder: "Path",
        screen: "Screen",
        *,
        reshards: int,
        keys: int,
        pause_seconds: float,
    ) -> None:
        from shardline.cli.demo.picture import Picture
        from shardline.dashboard.server import PageServer
        from shardline.leases.address import open_table
        from shardline.local.service import Service
        from shardline.observation.watch import LiveWatch
        from shardline.services.access import Access
        from shardline.services.connection import connect

        self._began = time.monotonic()
        self._cleaning, self._folder, self._screen = cleaning, folder, screen
        self._reshards, self._keys, self._pause_seconds = reshards, keys, pause_seconds
        self._service: Service = cleaning.enter_context(Service())
        self._client = self._service.client("kinesis")
        self._client.create_stream(StreamName=_STREAM, ShardCount=4)
        self._lease_table = f"sqlite:///{folder}/leases.db"
        table = open_table(self._lease_table)
        table.prepare()
        address = f"kinesis://{_STREAM}"
        stream = connect(address, Access(endpoint_url=self._service.endpoint_url))
        self._counts = ReadCounts()
        self._watch = LiveWatch(address, stream, table, "demo", self._counts)
        self.page_url = cleaning.enter_context(PageServer(self._watch)).url
        self._picture: Picture = Picture(page=self.page_url)
        self._traffic: list[Traffic] = []
        self._workers: list[Worker] = []
        self._resharded = 0
        self._fail_over_seconds: float | None = None
        self._note(f"a Kinesis of our own at {self._service.endpoint_url}, 4 shards")
        self._note(f"all of this as a page: {self.page_url}")

    def run(self, rng: "random.Random") -> "Outcome":
        """Run the whole demo and return its outcome."""
        from shardline.cli.demo.outcome import Outcome

        victim, survivor = self._start("ada"), self._start("grace")
        self._note("two Spark workers start: ada and grace")
        self._until(lambda: bool(self._watch.snapshot().workers), "starting Spark")
        # Few at first: while Spark warms up, a machine with two cores has enough to do.
        few, many = self._keys // 10, self._keys
        self._write([f"key-{n}" for n in range(few)], writers=1, pause_seconds=0.02)
        self._until(lambda: bool(victim.log.lines and survivor.log.lines), "starting Spark")
        self._write([f"key-{n}" for n in range(few, many)], writers=4, pause_seconds=0.005)
        self._picture.workers.update(ada="reads", grace="reads")
        self._note("both workers read")
        self._next_step()
        self._hang(survivor)
        for _ in range(self._reshards // 2):
            self._reshard(rng)
        self._next_step()
        self._kill(victim, survivor)
        self._next_step()
        for _ in range(self._reshards - self._reshards // 2):
            self._reshard(rng)
        self._next_step()
        for traffic in self._traffic:
            traffic.stop()
        self._note(f"the writers stop after {self._written:,} events")
        self._until(lambda: self._counts.total >= self._written, "catching up")
        self._next_step()
        clean_stop_seconds = self._stop(survivor)
        verdict = self._judge()
        self._watch.set_verdict(verdict)
        self._picture.page = ""  # --keep prints it below the verdict
        self._next_step()
        return Outcome(
            verdict,
            self._resharded,
            self._fail_over_seconds,
            clean_stop_seconds,
            time.monotonic() - self._began,
        )

    @property
    def _written(self) -> int:
        return sum(traffic.count for traffic in self._traffic)

    def _write(self, keys: list[str], *, writers: int, pause_seconds: float) -> None:
        from shardline.local.traffic import Traffic

        traffic = Traffic(
            self._client, _STREAM, keys, writers=writers, pause_seconds=pause_seconds
        ).start()
        self._cleaning.callback(traffic.end)
        self._traffic.append(traffic)
        who = "1 writer puts" if writers == 1 else f"{writers} writers put"
        self._note(f"{who} numbered events under {len(keys)} keys")

    def _start(self, name: str) -> "Worker":
        from shardline.cli.demo.workers import Worker

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

    def _reshard(self, rng: "random.Random") -> None:
        from shardline.local.traffic import reshard_once

        reshard_once(self._client, _STREAM, rng, most_open=6)  # what it did is seen by watching
        self._resharded += 1
        written = self._written
        again_at = time.monotonic() + self._pause_seconds

        def settled() -> bool:
            shards = self._picture.snapshot.shards if self._picture.snapshot else ()
            return (
                self._counts.total >= written
                and not any(shard.waits_for for shard in shards)
                and time.monotonic() >= again_at
            )

        self._until(settled, "reading through a reshard")

    def _hang(self, worker: "Worker") -> None:
        """Make the consumer of one shard hang until every other shard was read on."""
        hung = worker.log.lines[-1].shard_id
        hang_file = self._folder / "hang"
        hang_file.write_text(hung)
        hung_at = time.time()
        self._note(f"the consumer of {shard_list([hung])} hangs")

        def others_read_on() -> bool:
            shards = self._watch.snapshot().shards
            wanted = {s.id for s in shards if s.owner and s.id != hung}
            lines = [line for w in self._workers for line in w.log.lines if line.at > hung_at + 1]
            return bool(wanted) and wanted <= {line.shard_id for line in lines}

        self._until(others_read_on, "reading on beside a shard that hangs")
        hang_file.unlink()
        self._note("every other shard was read on meanwhile; it goes on, too")

    def _kill(self, victim: "Worker", survivor: "Worker") -> None:
        def held_by_it() -> set[str]:
            shards = self._watch.snapshot().shards
            return {s.id for s in shards if (s.owner or "").startswith(f"{victim.name}-")}

        self._until(lambda: bool(held_by_it()), "sharing the shards")
        held = held_by_it()
        victim.kill()
        killed_at, began = time.time(), time.monotonic()
        self._picture.workers["ada"] = "killed"
        self._note(f"kill -9 of ada, which holds {shard_list(sorted(held))}")

        def taken_over() -> bool:
            return any(line.shard_id in held and line.at > killed_at for line in survivor.log.lines)

        self._until(taken_over, "failing over")
        self._fail_over_seconds = time.monotonic() - began
        self._note(f"grace reads on with ada's shards after {self._fail_over_seconds:.1f} s")

    def _stop(self, worker: "Worker") -> float:
        began = time.monotonic()
        self._note(f"SIGTERM to {worker.name}, as a deployment sends it")
        worker.ask_to_stop()
        worker.wait(60)
        seconds = time.monotonic() - began
        self._picture.workers[worker.name] = "stopped"
        self._note(f"{worker.name} {worker.last_line().removesuffix(', nothing to repeat')}")
        return seconds

    def _until(self, done: "Callable[[], bool]", doing: str) -> None:
        """Draw and read the logs until something is so; a worker that dies ends the demo."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            time.sleep(_POLL_SECONDS)
            self._draw()
            for worker in self._workers:
                if not worker.alive and self._picture.workers[worker.name] != "killed":
                    raise ShardlineError(f"worker {worker.name} ended: {worker.last_line()}")
            if time.monotonic() > deadline:
                raise ShardlineError(f"{doing} took longer than {_PATIENCE_SECONDS:.0f} s")

    def _note(self, text: str) -> None:
        """Add a line to the events that the page and the terminal show."""
        self._watch.note(text)
        self._draw()

    def _next_step(self) -> None:
        self._picture.step += 1
        self._draw()

    def _draw(self) -> None:
        picture, now = self._picture, time.monotonic()
        for worker in self._workers:
            self._counts.add(worker.log.read_on(), now)
        picture.seconds = now - self._began
        picture.written = self._written
        picture.read = self._counts.total
        picture.shard_rates = self._counts.rates(now)
        picture.records_per_second = sum(picture.shard_rates.values())
        picture.snapshot = self._watch.snapshot()
        self._screen.show(picture)

    def _judge(self) -> "Verdict":
        from shardline.cli.demo.workers import report_deliveries
        from shardline.core.promise import PromiseChecker

        checker = PromiseChecker()
        for shard in self._client.list_shards(StreamName=_STREAM)["Shards"]:
            parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
            checker.shard(shard["ShardId"], [parent for parent in parents if parent])
        for traffic in self._traffic:
            traffic.report_to(checker)
        report_deliveries(checker, [worker.log for worker in self._workers])
        return checker.verdict()
