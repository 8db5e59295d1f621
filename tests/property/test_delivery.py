"""Failing consumers, all policies, lanes and crashes: order, and nothing lost, hold throughout.

The steps of all lanes are run one call at a time, in an order that hypothesis chooses. A crash
drops everything but what is durable: the letters, the parked keys and the checkpoint. A letter
counts as a delivery to whoever reads the dead letters, so that the checker judges the order of
both together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from shardline.consumer.consumer import ShardBatch, ShardConsumer
from shardline.consumer.delivery import Delivery, Done, Halted
from shardline.consumer.lanes import Watermark, split
from shardline.consumer.policies import DeadLetter, FailurePolicy, Halt, Retry
from shardline.core.promise import Breach, PromiseChecker, RecordRef
from shardline.services.steps import Pause
from tests.unit.consumer.shard_pages import SHARD, page

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from shardline.services.steps import Call

TO = "file:///letters"
LETTERS = st.builds(
    DeadLetter,
    st.just(TO),
    per=st.sampled_from(["record", "batch", "key", "key"]),
    attempts=st.integers(1, 2),
    most_parked_keys=st.integers(1, 4),
)
STOPS: st.SearchStrategy[FailurePolicy] = st.one_of(
    st.builds(Retry, attempts=st.integers(1, 4), first_delay_seconds=st.just(0)),
    st.builds(Halt),
)
KEYS = st.sampled_from(["a", "b", "c", "d"])
FOREVER = 10**6


@dataclass
class World:
    """One shard, its consumer, and what survives a crash."""

    keys: list[str]
    """Of the records, which are numbered from 0 in written order."""
    poison: dict[int, int]
    """How often a record still fails."""
    policy: FailurePolicy
    lanes: int
    page_records: int
    random: Random
    checker: PromiseChecker = field(default_factory=PromiseChecker)
    parked: dict[str, int] = field(default_factory=dict)
    """Parked keys, and the first letter of each."""
    checkpoint: int = -1
    epoch: int = 0
    halted: str | None = None
    outcome: dict[int, str] = field(default_factory=dict)
    """What happened to each record last: "processed" or "letter"."""

    def __post_init__(self) -> None:
        for number, key in enumerate(self.keys):
            self.checker.wrote(SHARD, RecordRef(key, number))

    # --- what is called ---------------------------------------------------------------------

    def process(self, batch: ShardBatch) -> None:
        numbers = self._numbers(batch)
        for number in numbers:
            self._deliver(batch, number)
            if self.poison.get(number, 0) > 0:
                self.poison[number] -= 1
                raise ValueError(f"no {number}")
        self.outcome |= dict.fromkeys(numbers, "processed")

    def write(
        self, batch: ShardBatch, reason: str, *, parked: bool = False, **_: object
    ) -> tuple[str, ...]:
        assert reason
        for number in self._numbers(batch):
            self._deliver(batch, number)
            self.outcome[number] = "letter"
            assert parked == (getattr(self.policy, "per", None) == "key")
        return tuple(map(str, self._numbers(batch)))

    def park(self, key: str, letter_id: str) -> Call:
        return partial(self.parked.setdefault, key, int(letter_id))

    def _deliver(self, batch: ShardBatch, number: int) -> None:
        record = RecordRef(self.keys[number], number)
        self.checker.delivered(SHARD, batch.fence, [record], owner=str(self.epoch))

    @staticmethod
    def _numbers(batch: ShardBatch) -> list[int]:
        return [int(record.sequence_number) for record in batch.records]

    # --- one lease --------------------------------------------------------------------------

    def work(self, steps_before_crash: int) -> bool:
        """Work under a new epoch from the checkpoint on; return true when there is nothing left."""
        self.epoch += 1
        delivery = Delivery(
            _Consumer.of(self),
            SHARD,
            self.epoch,
            letters=self,
            parked=self.parked,
            park=self.park,
        )
        watermark = Watermark[int]()
        lanes: list[list[tuple[int, pa.RecordBatch]]] = [[] for _ in range(self.lanes)]
        rest = [(self.keys[n], n) for n in range(self.checkpoint + 1, len(self.keys))]
        for begin in range(0, len(rest), self.page_records):
            chunk = rest[begin : begin + self.page_records]
            parts = split(page(*chunk), self.lanes)
            filled = sum(part.num_rows > 0 for part in parts)
            ticket = watermark.opened(chunk[-1][1], filled)
            for lane, part in enumerate(parts):
                if part.num_rows:
                    lanes[lane].append((ticket, part))
        running = [self._lane(delivery, watermark, parts) for parts in lanes]
        for _ in range(steps_before_crash):
            if not running or self.halted is not None:
                break
            chosen = self.random.choice(running)
            if next(chosen, "ended") == "ended":
                running.remove(chosen)
        return not running or self.halted is not None

    def _lane(
        self, delivery: Delivery, watermark: Watermark[int], parts: list[tuple[int, pa.RecordBatch]]
    ) -> Generator[None, None, None]:
        """Run a lane's deliveries, one call at each step."""
        for ticket, part in parts:
            steps = delivery.deliver_steps(part)
            resume: Any = partial(next, steps)
            outcome: Done | Halted | None = None
            while outcome is None:
                try:
                    step = resume()
                except StopIteration as stop:
                    outcome = stop.value
                    continue
                yield
                try:
                    resume = partial(steps.send, None if isinstance(step, Pause) else step())
                except ValueError as error:
                    resume = partial(steps.throw, error)
            if isinstance(outcome, Halted):
                self.halted = outcome.reason
                return
            reached = watermark.acknowledged(ticket)
            if reached is not None:
                self.checkpoint = reached
                self.checker.checkpointed(SHARD, self.epoch, reached, owner=str(self.epoch))
            yield


class _Consumer(ShardConsumer):
    world: World

    @classmethod
    def of(cls, world: World) -> ShardConsumer:
        consumer = cls()
        consumer.world = world
        consumer.failure = world.policy  # type: ignore[misc]
        return consumer

    def process(self, batch: ShardBatch) -> None:
        self.world.process(batch)


@pytest.mark.case("R-01", "R-02", "R-07", "X-14")
@pytest.mark.req("K-41", "K-45")
@settings(max_examples=400)
@given(
    keys=st.lists(KEYS, min_size=6, max_size=30),
    data=st.data(),
    policy=LETTERS | LETTERS | STOPS,
    lanes=st.integers(1, 3),
    page_records=st.integers(1, 6),
    crashes=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_the_promises_hold_for_any_failures(
    keys: list[str],
    data: st.DataObject,
    policy: FailurePolicy,
    lanes: int,
    page_records: int,
    crashes: list[int],
    seed: int,
) -> None:
    numbers = st.integers(0, len(keys) - 1)
    often = st.integers(1, 4) | st.just(FOREVER)
    poison = data.draw(st.dictionaries(numbers, often, min_size=1, max_size=6))
    world = World(keys, dict(poison), policy, lanes, page_records, Random(seed))
    for steps in crashes:
        world.work(steps)
        if world.halted is not None:
            break
    while world.halted is None and not world.work(10_000):
        pass

    verdict = world.checker.verdict()
    allowed = {Breach.LOST} if world.halted is not None else set()
    assert verdict.breaches.keys() <= allowed, verdict.examples
    event(f"halted: {world.halted is not None}")
    event(f"letters: {'letter' in world.outcome.values()}")
    event(f"parked: {bool(world.parked)}")
    _check_outcomes(world, poison)


def _check_outcomes(world: World, poison: dict[int, int]) -> None:
    """Everything up to the checkpoint was processed or is in the letters, by the policy's rule."""
    if world.halted is None:
        assert world.checkpoint == len(world.keys) - 1
    for number in range(world.checkpoint + 1):
        assert number in world.outcome
    match world.policy:
        case Retry() | Halt():
            assert "letter" not in world.outcome.values()
        case DeadLetter(per="key"):
            # After a crash, records that were processed and not acknowledged may follow, too.
            for key in set(world.keys):
                first = world.parked.get(key, len(world.keys))
                mine = [n for n in range(world.checkpoint + 1) if world.keys[n] == key]
                outcomes = [world.outcome[number] for number in mine]
                assert outcomes == sorted(outcomes, reverse=True)  # processed, then letters
                assert all(world.outcome[number] == "letter" for number in mine if number >= first)
                assert key in world.parked or "letter" not in outcomes
            assert len(world.parked) <= world.policy.most_parked_keys + world.lanes - 1
        case DeadLetter(per="record"):
            letters = {n for n, outcome in world.outcome.items() if outcome == "letter"}
            assert letters <= poison.keys()
