"""Spark applications as real processes that share a stream, and what is judged of them."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from shardline.cli.demo.workers import Worker, tell
from shardline.core.leasing.rows import worker_name
from shardline.core.promise import PromiseChecker, Verdict
from shardline.leases.address import open_table
from shardline.local.service import Service
from shardline.local.traffic import Traffic
from shardline.services.access import Access

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.core.leasing.rows import LeaseRow

STREAM: Final = "orders"
APP: Final = "demo"
"""The app that the demo's workers belong to."""
LEASE_SECONDS: Final = 10
DEADLINE_SECONDS: Final = 300.0


class Member(Worker):
    """One application, which can be held back, frozen, and made to talk."""

    @property
    def gate(self) -> Path:
        return Path(f"{self.log.path}.gate")

    @property
    def output(self) -> str:
        return Path(self._output.name).read_text()

    def send(self, number: int) -> None:
        """Send a signal to the application alone, as a terminal or a deployment does."""
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Stop all of it in its tracks."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)


class Team:
    """A stream, a lease table, and the applications that share it."""

    def __init__(
        self,
        folder: Path,
        *,
        shards: int,
        lease_table: str | None = None,
        lease_endpoint_url: str | None = None,
    ) -> None:
        self._cleaning = ExitStack()
        self.folder = folder
        self.service = self._cleaning.enter_context(Service())
        self.client = self.service.client("kinesis")
        self.client.create_stream(StreamName=STREAM, ShardCount=shards)
        self.members: list[Member] = []
        self._lease_table = lease_table or f"sqlite:///{folder}/leases.db"
        self._lease_endpoint_url = lease_endpoint_url
        self.table = open_table(self._lease_table, Access(endpoint_url=lease_endpoint_url))
        self.table.prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()
        self._cleaning.close()

    def traffic(self, keys: int, pause_seconds: float = 0.01) -> Traffic:
        names = [f"key-{n}" for n in range(keys)]
        traffic = Traffic(self.client, STREAM, names, writers=2, pause_seconds=pause_seconds)
        self._cleaning.callback(traffic.end)
        return traffic.start()

    def start(self, name: str, *more: str, consumer: str = "tests.spark.gated:Gated") -> Member:
        """Start an application; one of the same name writes on in the same log."""
        if self._lease_endpoint_url:
            more = ("--lease-endpoint-url", self._lease_endpoint_url, *more)
        member = Member(
            name,
            self.folder,
            stream=f"kinesis://{STREAM}",
            endpoint_url=self.service.endpoint_url,
            lease_table=self._lease_table,
            consumer=consumer,
            more=("--lease-seconds", str(LEASE_SECONDS), *more),
        )
        self.members.append(member)
        return member

    def until(self, happened: Callable[[], bool], what: str, *alive: Member) -> None:
        """Wait for something; fail at once if an application that is needed has ended."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not happened():
            self.read_logs()
            for member in alive:
                assert member.alive, f"{member.name} ended before {what}: {member.output[-2000:]}"
            assert time.monotonic() < deadline, f"in vain: {what}; {self.said()}"
            time.sleep(0.1)
        self.read_logs()

    def said(self) -> str:
        return "\n".join(f"--- {m.name}\n{m.output[-1500:]}" for m in self.members)

    def read_logs(self) -> None:
        for member in self.members:
            member.log.read_on()

    def rows(self) -> tuple[LeaseRow, ...]:
        return self.table.scan_rows(APP, STREAM, None, 1000).rows

    def held(self) -> Counter[str]:
        """Return how many shards each worker holds."""
        return Counter(worker_name(r.lease_owner) for r in self.rows() if r.lease_owner)

    def balanced(self, *members: Member) -> bool:
        """Say whether all shards are held, by these, each within one of the others."""
        rows = self.rows()
        listed = {s["ShardId"] for s in self.client.list_shards(StreamName=STREAM)["Shards"]}
        held = self.held()
        return (
            {r.shard_id for r in rows if r.lease_owner or r.completed} == listed
            and held.keys() == {m.name for m in members}
            and max(held.values()) - min(held.values()) <= 1
        )

    def delivered(self) -> int:
        """Return how many different records came."""
        self.read_logs()
        return len({(line.shard_id, r.sequence) for line in self._lines() for r in line.records})

    def repeated(self, before: float = float("inf")) -> int:
        """Return how many records came more than once, as far as that was before a time."""
        seen = Counter(
            (line.shard_id, r.sequence)
            for line in self._lines()
            for r in line.records
            if line.at < before
        )
        return sum(seen.values()) - len(seen)

    def judge(self, traffic: Traffic) -> Verdict:
        """Tell the checker of all that was written and delivered, in the order of one clock."""
        checker = PromiseChecker()
        for shard_id, parents in self.parents().items():
            checker.shard(shard_id, parents)
        traffic.report_to(checker)
        logs = {m.log.path: m.log for m in self.members}
        tell(checker, list(logs.values()))
        return checker.verdict().require()

    def parents(self) -> dict[str, list[str]]:
        names = ("ParentShardId", "AdjacentParentShardId")
        shards: list[dict[str, Any]] = self.client.list_shards(StreamName=STREAM)["Shards"]
        return {s["ShardId"]: [s[n] for n in names if s.get(n)] for s in shards}

    def first(self, what: str, shard_id: str) -> float:
        """Return when something was first said of a shard; never: infinity."""
        times = (x.at for x in self._lines() if (x.what, x.shard_id) == (what, shard_id))
        return min(times, default=float("inf"))

    def _lines(self) -> Any:
        # Two applications of one name share a log, and each reads it from its beginning.
        logs = {m.log.path: m.log for m in self.members}
        return (line for log in logs.values() for line in log.lines)
