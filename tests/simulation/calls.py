"""How calls fare: each path (table, listing, reading, one shard) has a fate of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from shardline.errors import ServiceUnreachable, ShardlineError, Throttled
from shardline.leases.coordinator import Coordinator
from shardline.leases.port import TableUnavailable
from tests.simulation.clockwork import Actor
from tests.simulation.fast_twin import FastTwin
from tests.simulation.table_stream import TableTwin
from tests.simulation.user import UserConsumer
from tests.twins.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from shardline.services.steps import Call
    from tests.simulation.clockwork import Process
    from tests.simulation.user import UserCode

Done = Any


@dataclass(frozen=True, slots=True)
class Trouble:
    """Calls on some paths fare badly until a moment."""

    kind: str
    """lose, slow, outage, hang or throttle."""
    path: str
    """table, listing, reading, or a shard's name: then only reading that shard."""
    until: float


@dataclass(slots=True)
class Network:
    """The troubles at hand."""

    random: Random
    table_deadline: float
    stream_deadline: float
    noise: float = 0.0
    """The share of calls to the stream that fail besides."""
    troubles: list[Trouble] = field(default_factory=list)
    last_of_path: dict[str, float] = field(default_factory=dict)
    """When the last trouble of a path ends."""
    made: int = 0
    """How many calls were made."""
    writes: list[int] = field(default_factory=list)
    """The numbers of those that write a lease row."""
    script: dict[int, str] | None = None
    """The fate of single calls, by number; all others fare well. None: chance decides."""
    on_death: Callable[[Process, str], None] = lambda process, how: None

    def add(self, trouble: Trouble) -> None:
        self.troubles.append(trouble)
        self.last_of_path[trouble.path] = max(
            trouble.until, self.last_of_path.get(trouble.path, 0.0)
        )

    def kinds(self, path: str, shard: str, now: float) -> set[str]:
        if not self.troubles:
            return set()
        self.troubles = [t for t in self.troubles if now < t.until]
        return {t.kind for t in self.troubles if t.path == path or (shard and t.path == shard)}

    def table_calm_since(self, now: float) -> float:
        """Return how long the path to the table has been well."""
        return now - self.last_of_path.get("table", float("-inf"))


class Calls:
    """Makes the calls of all actors. See `clockwork.Performer`."""

    def __init__(self, network: Network, user: UserCode) -> None:
        self._network = network
        self._user = user

    def perform(self, process: Process, call: Call, done: Done) -> None:
        function: Any = call
        arguments: tuple[Any, ...] = ()
        if isinstance(call, partial):
            function, arguments = call.func, call.args
        target: Any = getattr(function, "__self__", None)
        if isinstance(target, MemoryLeaseTable):
            if function.__name__ == "swap_row":
                self._network.writes.append(self._network.made + 1)
            self._remote(process, call, done, "table", "", self._network.table_deadline)
        elif isinstance(target, FastTwin | TableTwin):
            name = function.__name__
            deadline = self._network.stream_deadline
            if name == "read":
                shard = target.shard_of(arguments[0])
                self._remote(process, call, done, "reading", shard, deadline)
            elif name in ("open", "subscribe"):
                self._remote(process, call, done, "reading", arguments[0], deadline)
            else:
                self._remote(process, call, done, "listing", "", deadline)
        elif isinstance(target, UserConsumer):
            self._user.run(process, call, function.__name__, done)
        elif isinstance(target, Coordinator):
            _leave(process, target, arguments[0], done)
        elif hasattr(target, "perform"):
            target.perform(function.__name__, arguments, done)
        else:
            process.do(partial(_make, call, done))

    def _remote(
        self, process: Process, call: Call, done: Done, path: str, shard: str, deadline: float
    ) -> None:
        """Make a call over the network: it may be lost, late, or without an answer."""
        network, machine = self._network, process.machine
        clockwork, random = machine.clockwork, network.random
        network.made += 1
        if network.script is not None:
            fate = network.script.get(network.made, "")
            self._scripted(process, call, done, fate, deadline, _no_answer(path))
            return
        there = 0.002 + 0.02 * random.random()
        noise = network.noise if path != "table" else 0.0
        if not network.troubles and not noise and not machine.cut_off:
            if random.random() < 0.2:
                done = partial(_later, clockwork.after, 0.02 * random.random(), done)
            clockwork.after(there, partial(_make, call, done))
            return
        no_answer = _no_answer(path)
        kinds = network.kinds(path, shard, clockwork.now)
        if machine.cut_off or "outage" in kinds:
            clockwork.after(random.choice((there, deadline)), partial(done, None, no_answer))
            return
        if "throttle" in kinds and random.random() < 0.7:
            error = TableUnavailable("throttled") if path == "table" else Throttled("throttled")
            clockwork.after(there, partial(done, None, error))
            return
        if noise and random.random() < noise:
            clockwork.after(there, partial(done, None, random.choice((no_answer, Throttled("")))))
            return
        lost = "lose" in kinds and random.random() < 0.25
        if "hang" in kinds or lost:
            arrives = random.choice((None, there, there, deadline + 3.0 * random.random()))
            if arrives is not None:
                clockwork.after(arrives, partial(_make, call, _ignore))
            clockwork.after(deadline, partial(done, None, no_answer))
            return
        if "slow" in kinds and random.random() < 0.5:
            there += deadline * 1.1 * random.random()
        if there >= deadline:
            clockwork.after(there, partial(_make, call, _ignore))
            clockwork.after(deadline, partial(done, None, no_answer))
        elif random.random() < 0.2:
            back = 0.02 * random.random()
            clockwork.after(
                there, partial(_make, call, partial(_later, clockwork.after, back, done))
            )
        else:
            clockwork.after(there, partial(_make, call, done))

    def _scripted(
        self,
        process: Process,
        call: Call,
        done: Done,
        fate: str,
        deadline: float,
        no_answer: ShardlineError,
    ) -> None:
        """Make a call with a fate that was written down: see `small_scopes`."""
        after = process.machine.clockwork.after
        match fate:
            case "request lost":
                after(deadline, partial(done, None, no_answer))
            case "reply lost":
                after(0.01, partial(_make, call, _ignore))
                after(deadline, partial(done, None, no_answer))
            case "applied late":
                after(deadline + 0.5, partial(_make, call, _ignore))
                after(deadline, partial(done, None, no_answer))
            case "delayed":
                after(deadline * 0.9, partial(_make, call, done))
            case "":
                after(0.01, partial(_make, call, done))
            case _:
                after(0.01, partial(_make, call, done))
                self._network.on_death(process, fate)


def _make(call: Call, done: Done) -> None:
    try:
        value = call()
    except Exception as error:
        done(None, error)
    else:
        done(value, None)


def _later(after: Callable[..., None], seconds: float, done: Done, *answer: Any) -> None:
    after(seconds, partial(done, *answer))


def _ignore(value: Any, error: Exception | None) -> None:
    """Nobody hears the answer; what must never happen is heard all the same."""
    if error is not None and not isinstance(error, ShardlineError):
        raise error


def _no_answer(path: str) -> ShardlineError:
    return TableUnavailable("no answer") if path == "table" else ServiceUnreachable("no answer")


def _leave(process: Process, coordinator: Coordinator, seconds: float, done: Done) -> None:
    """Do what `Coordinator.leave` does with threads: actors end, then everything is released."""
    from shardline.core.leasing import events as e

    answered: list[bool] = []

    def finish(left: bool) -> None:
        if not answered:
            answered.append(True)
            done(left, None)

    with coordinator._lock:
        coordinator._member.handle(e.Leaving())
    actors: list[Any] = list(coordinator._wakes.values())
    for actor in actors:
        actor.set()
    process.after(seconds, lambda: finish(False))
    last = Actor(
        process, "leaving", coordinator.leave_steps(), lock=coordinator._lock,
        on_end=lambda: finish(not coordinator.state.mine),
    )  # fmt: skip

    def when_ended() -> None:
        if all(actor.ended for actor in actors):
            last.start()
        else:
            process.after(0.01, when_ended)

    when_ended()
