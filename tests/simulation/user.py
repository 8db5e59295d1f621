"""The user's code: a consumer that records what it is given, is slow, fails, and hangs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from shardline.consumer.consumer import ShardConsumer
from shardline.consumer.keys import keys_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from shardline.consumer.consumer import ShardBatch
    from shardline.services.steps import Call
    from tests.simulation.clockwork import Process


class UserFailed(Exception):
    """The user's code failed."""


class TwoAtOnce(Exception):
    """One shard of one process is in the hands of more calls than it has lanes."""


class UserConsumer(ShardConsumer):
    """Passes every batch to the simulated world, which it finds by its token."""

    worlds: ClassVar[dict[int, Callable[[ShardBatch, str], None]]] = {}

    def __init__(self, token: int, owner: str) -> None:
        self.token = token
        self.owner = owner

    def process(self, batch: ShardBatch) -> None:
        self.worlds[self.token](batch, self.owner)


class TwoLanes(UserConsumer):
    lanes = 2


class ThreeLanes(UserConsumer):
    lanes = 3


CONSUMERS = {1: UserConsumer, 2: TwoLanes, 3: ThreeLanes}


def stream_of(batch: ShardBatch) -> str:
    """Return the stream of a batch, which is the first part of its keys."""
    return keys_in(batch)[0].partition(".")[0]


def keys_in(batch: ShardBatch) -> list[str]:
    """Return the key of each record; that of a table's is an attribute in JSON."""
    keys = keys_of(batch.arrow).to_pylist()
    return [key.removeprefix('{"S":"').removesuffix('"}') for key in keys]


class UserCode:
    """How long calls of the consumer take, and which of them fail or hang."""

    def __init__(
        self, random: Random, seconds: float, failure_rate: float, hang_seconds: float
    ) -> None:
        self._random = random
        self._hang_seconds = hang_seconds
        self._seconds = seconds
        self._failure_rate = failure_rate
        self._failed_in_a_row = 0
        self._hanging: set[str] = set()
        self._running: dict[tuple[Process, str], int] = {}
        self.on_begin: Callable[[ShardBatch], None] = lambda batch: None
        """Called when a delivery begins."""

    def hang_next(self, worker: str) -> None:
        """Let the next call in a process of this worker not return for long."""
        self._hanging.add(worker)

    def heal(self) -> None:
        self._failure_rate = 0.0
        self._hanging.clear()

    def run(self, process: Process, call: Call, name: str, done: Any) -> None:
        """Run user code: its effect comes at the beginning or at the end of the call."""
        if name == "process":
            done = self._counted(process, call, done)
            self.on_begin(call.args[0])  # type: ignore[attr-defined]
            if process.name in self._hanging:
                self._hanging.discard(process.name)
                process.after(self._hang_seconds, partial(_make, call, done))
                return
            if self._fails():
                # It may have done part of its work before it failed.
                if self._random.random() < 0.5:
                    _make(call, lambda *_: None)
                process.after(self._took(), partial(done, None, UserFailed("no")))
                return
        if self._random.random() < 0.5:
            _make(call, partial(_then, process, self._took(), done))
        else:
            process.after(self._took(), partial(_make, call, done))

    def _took(self) -> float:
        slow = 20.0 if self._random.random() < 0.02 else 1.0
        return self._seconds * self._random.random() * slow

    def _fails(self) -> bool:
        fails = self._random.random() < self._failure_rate and self._failed_in_a_row < 3
        self._failed_in_a_row = self._failed_in_a_row + 1 if fails else 0
        return fails

    def _counted(self, process: Process, call: Any, done: Any) -> Any:
        """Require that no more calls than lanes are at hand for one shard in one process."""
        batch: ShardBatch = call.args[0]
        shard_id = f"{stream_of(batch)}.{batch.shard_id}"
        place = (process, shard_id)
        self._running[place] = self._running.get(place, 0) + 1
        if self._running[place] > call.func.__self__.lanes:
            raise TwoAtOnce(f"{shard_id} in {process.name}")

        def counted(value: Any, error: Exception | None) -> None:
            self._running[place] -= 1
            done(value, error)

        return counted


def _make(call: Call, done: Any) -> None:
    try:
        value = call()
    except Exception as error:
        done(None, error)
    else:
        done(value, None)


def _then(process: Process, seconds: float, done: Any, *answer: Any) -> None:
    process.after(seconds, partial(done, *answer))
