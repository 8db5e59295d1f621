"""A stream and an application for tests of the page, changed by method calls."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING

from shardline.core.leasing.rows import Heartbeat, LeaseRow, finished, halted, released, taken
from shardline.core.shards import HASH_SPACE_END, HashRange, SequenceNumber, Shard
from shardline.observation.history import History
from shardline.observation.observation import Observation

if TYPE_CHECKING:
    from shardline.core.promise import Verdict
    from shardline.observation.snapshot import DeadLetter, Snapshot

START = 1_800_000_000.0


class Situation:
    """Shards and leases as a `Watch`. Thread-safe."""

    def __init__(self, shard_count: int = 1, stream: str = "kinesis://orders") -> None:
        self.now = START
        self.verdict: Verdict | None = None
        self.dead_letters: list[DeadLetter] = []
        self.rates: dict[str, float] = {}
        self.lags: dict[str, float] = {}
        self._history = History(stream, "billing")
        self._lock = Lock()
        self._shards: dict[str, Shard] = {}
        self._rows: dict[str, LeaseRow] = {}
        self._beats: dict[str, Heartbeat] = {}
        size = (HASH_SPACE_END + 1) // shard_count
        for number in range(shard_count):
            last = number == shard_count - 1
            end = HASH_SPACE_END if last else (number + 1) * size - 1
            self._open((), HashRange(number * size, end))

    def snapshot(self) -> Snapshot:
        with self._lock:
            observation = Observation(
                self.now,
                tuple(self._shards.values()),
                START - 600,
                tuple(self._rows.values()),
                tuple(self._beats.values()),
                dict(self.lags),
                dict(self.rates),
            )
            return self._history.add(
                observation, verdict=self.verdict, dead_letters=tuple(self.dead_letters)
            )

    def shard_ids(self) -> list[str]:
        return list(self._shards)

    def add(self, shard: Shard) -> str:
        with self._lock:
            self._shards[shard.id] = shard
            self._rows[shard.id] = LeaseRow(
                "billing", "orders", shard.id, datetime.fromtimestamp(START - 600, UTC)
            )
        return shard.id

    def split(self, shard_id: str) -> tuple[str, str]:
        whole = self._shards[shard_id].hash_range
        assert whole is not None
        middle = (whole.start + whole.end) // 2
        self._close(shard_id)
        return (
            self._open((shard_id,), HashRange(whole.start, middle)),
            self._open((shard_id,), HashRange(middle + 1, whole.end)),
        )

    def merge(self, left: str, right: str) -> str:
        first, second = self._shards[left].hash_range, self._shards[right].hash_range
        assert first is not None
        assert second is not None
        self._close(left)
        self._close(right)
        return self._open((left, right), HashRange(first.start, second.end))

    def take(self, shard_id: str, owner: str) -> None:
        with self._lock:
            self._rows[shard_id] = taken(self._rows[shard_id], owner)

    def release(self, shard_id: str) -> None:
        with self._lock:
            self._rows[shard_id] = released(self._rows[shard_id])

    def drain(self, shard_id: str) -> None:
        with self._lock:
            self._rows[shard_id] = finished(self._rows[shard_id])

    def lose(self, shard_id: str, gap: str) -> None:
        with self._lock:
            self._rows[shard_id] = replace(self._rows[shard_id], gap=gap)

    def halt(self, shard_id: str, reason: str) -> None:
        with self._lock:
            self._rows[shard_id] = halted(self._rows[shard_id], reason)

    def beat(self, owner: str) -> None:
        with self._lock:
            before = self._beats.get(owner) or Heartbeat("billing", "orders", owner)
            self._beats[owner] = replace(before, count=before.count + 1)

    def leave(self, owner: str) -> None:
        with self._lock:
            del self._beats[owner]

    def _open(self, parents: tuple[str, ...], hash_range: HashRange) -> str:
        return self.add(Shard(f"shardId-{len(self._shards):012}", parents, hash_range))

    def _close(self, shard_id: str) -> None:
        with self._lock:
            self._shards[shard_id] = replace(self._shards[shard_id], last=SequenceNumber("9"))
