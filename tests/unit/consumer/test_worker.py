"""The keeper's half of a worker: what it passes on, and what it does when its runner is gone."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

import pytest

from shardline.consumer.messages import (
    Acknowledged,
    ConsumerCalled,
    ConsumerReturned,
    FinishPipeline,
    KeyIsParked,
    KeyParked,
    LeasesValid,
    PipelineBlocked,
    PipelineFailed,
    PipelineFinished,
    PipelineHalted,
    PipelineKey,
    PipelineStalled,
    Quit,
    ShardProcessed,
    StartPipeline,
    StopPipeline,
)
from shardline.consumer.worker import StreamWork, Worker
from shardline.core.leasing.holdings import Held
from shardline.core.positions import TRIM_HORIZON
from shardline.errors import LeaseLost
from shardline.leases.coordinator import Coordinator, TooManyParkedKeys
from shardline.services.steps import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.consumer.messages import FromRunner, ToRunner

KEY = PipelineKey("orders", "shard-1", 7)


class Link:
    def __init__(self) -> None:
        self.sent: list[ToRunner] = []
        self.received: deque[FromRunner | None] = deque()
        self.gone = self.killed = False
        self.on_wait: Callable[[], None] = lambda: None

    def send(self, message: ToRunner) -> None:
        self.sent.append(message)

    def receive(self, _timeout_seconds: float) -> FromRunner | None:
        if self.gone:
            raise EOFError
        return self.received.popleft() if self.received else None

    def kill(self) -> None:
        self.killed = True

    def wait(self, _timeout_seconds: float) -> None:
        self.on_wait()


class Leases:
    """Stands in for a coordinator: records the calls of the worker."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.until = 100.0
        self.lost = self.full = False

    def valid_until(self) -> float:
        return self.until

    def parked(self, _shard_id: str) -> frozenset[str]:
        return frozenset({"parked"})

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **named: Any) -> None:
            if self.lost:
                raise LeaseLost("another worker has it")
            if self.full and name == "park":
                raise TooManyParkedKeys("no room")
            self.calls.append((name, *arguments, *named.items()))

        return called


class Stage:
    def __init__(self) -> None:
        self.now = 0.0
        self.stopping = False
        self.links: list[Link] = []
        self.pauses: list[float] = []
        self.leases = Leases()
        self.worker = Worker(
            self._make, stop_requested=lambda: self.stopping, silence_seconds=30, stop_seconds=5,
            clock=lambda: self.now,
        )  # fmt: skip
        self.worker.coordinators = {"orders": cast("Coordinator", self.leases)}
        self.work = StreamWork("orders", self.worker)
        self._steps = self.worker.keep_steps()
        self._answer: tuple[Any, Exception | None] = (None, None)

    def _make(self) -> Link:
        self.links.append(Link())
        return self.links[-1]

    def run(self, calls: int = 5) -> None:
        """Run some steps; each takes a tenth of a second."""
        for _ in range(calls):
            result, error = self._answer
            try:
                step = self._steps.throw(error) if error else self._steps.send(result)
            except StopIteration:
                return
            self._answer = (None, None)
            self.now += 0.1
            if isinstance(step, Pause):
                self.pauses.append(step.seconds)
                continue
            try:
                self._answer = (step(), None)
            except Exception as raised:
                self._answer = (None, raised)

    def lease(self) -> None:
        self.work.start("shard-1", 7, Held(7, TRIM_HORIZON, None, finishing=False))


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.run()
    made.lease()
    return made


@pytest.mark.req("K-29", "K-31", "K-36")
def test_a_lease_that_is_taken_starts_a_pipeline_after_its_validity_is_known(stage: Stage) -> None:
    assert stage.links[0].sent == [
        LeasesValid(100.0),
        StartPipeline(KEY, TRIM_HORIZON, None, frozenset({"parked"})),
    ]


@pytest.mark.req("K-32")
def test_a_lost_lease_and_a_hand_over_reach_the_runner(stage: Stage) -> None:
    stage.work.finish("shard-1", 7)
    stage.work.stop("shard-1", 7)
    assert stage.links[0].sent[2:] == [FinishPipeline(KEY), StopPipeline(KEY)]


def test_a_renewal_prolongs_what_the_runner_may_do(stage: Stage) -> None:
    stage.leases.until = 105.0
    stage.run()
    assert stage.links[0].sent[-1] == LeasesValid(105.0)


@pytest.mark.req("K-45", "K-47", "K-49")
@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            Acknowledged(KEY, TRIM_HORIZON, None, 3),
            ("checkpoint", "shard-1", 7, TRIM_HORIZON, None, 3),
        ),
        (ShardProcessed(KEY), ("complete", "shard-1", 7)),
        (PipelineFinished(KEY), ("finish", "shard-1", 7)),
        (PipelineHalted(KEY, "no"), ("halt", "shard-1", 7, "no")),
        (PipelineFailed(KEY, "no"), ("restart", "shard-1", 7, ("counted", True))),
        (PipelineStalled(KEY, 9), ("give_up", "shard-1", 7, "its consumer did not return for 9 s")),
        (KeyParked(KEY, "ann", "letter"), ("park", "shard-1", 7, "ann", "letter")),
    ],
)  # fmt: skip
def test_reports_reach_the_leases(stage: Stage, message: FromRunner, call: tuple[Any, ...]) -> None:
    stage.links[0].received.append(message)
    stage.run()
    assert call in stage.leases.calls
    assert (KeyIsParked(KEY, "ann") in stage.links[0].sent) == isinstance(message, KeyParked)


@pytest.mark.case("X-30")
def test_a_runner_in_which_a_call_that_was_given_up_blocks_its_shard_is_replaced(
    stage: Stage,
) -> None:
    stage.links[0].received.append(PipelineBlocked(KEY))
    stage.run(8)
    assert len(stage.links) == 2
    assert ("restart", "shard-1", 7, ("counted", False)) in stage.leases.calls, (
        "taken anew: under another epoch"
    )
    assert not stage.pauses, "the other shards wait for it"


@pytest.mark.case("W-02")
def test_a_report_under_a_lost_lease_stops_the_pipeline(stage: Stage) -> None:
    stage.leases.lost = True
    stage.links[0].received.append(Acknowledged(KEY, TRIM_HORIZON, None, None))
    stage.run()
    assert stage.links[0].sent[-1] == StopPipeline(KEY)


def test_one_parked_key_too_many_halts_the_shard(stage: Stage) -> None:
    stage.leases.full = True
    stage.links[0].received.append(KeyParked(KEY, "ann", "letter"))
    stage.run()
    assert ("halt", "shard-1", 7, "no room") in stage.leases.calls
    assert StopPipeline(KEY) in stage.links[0].sent
    assert KeyIsParked(KEY, "ann") not in stage.links[0].sent


@pytest.mark.req("K-14", "K-25")
@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_a_runner_that_is_gone_is_replaced_and_its_leases_are_taken_anew(
    stage: Stage, how: str
) -> None:
    if how == "dies":
        stage.links[0].gone = True
    else:
        stage.now += 31
    stage.run(3)
    assert ("restart", "shard-1", 7, ("counted", False)) in stage.leases.calls
    assert stage.links[0].killed
    again = PipelineKey("orders", "shard-1", 8)
    stage.work.start("shard-1", 8, Held(8, TRIM_HORIZON, None, finishing=False))
    stage.run(6)
    assert stage.pauses
    starts = [m for m in stage.links[1].sent if isinstance(m, StartPipeline)]
    assert [start.key for start in starts] == [again]  # sent though the runner came later


@pytest.mark.case("X-30")
@pytest.mark.parametrize(
    ("messages", "counted"),
    [
        ([], False),
        ([ConsumerCalled(KEY)], True),
        ([ConsumerCalled(KEY), ConsumerReturned(KEY)], False),
        ([ConsumerCalled(KEY), Acknowledged(KEY, TRIM_HORIZON, None, 0)], False),
    ],
)
def test_the_death_of_a_runner_counts_for_the_shards_whose_consumer_was_called(
    stage: Stage, messages: list[FromRunner], counted: bool
) -> None:
    stage.links[0].received.extend(messages)
    stage.run(len(messages) + 1)
    stage.links[0].gone = True
    stage.run(3)
    assert ("restart", "shard-1", 7, ("counted", counted)) in stage.leases.calls


@pytest.mark.req("K-51")
@pytest.mark.case("W-18")
def test_a_stop_finishes_every_pipeline_before_the_leases_are_given_back(stage: Stage) -> None:
    stage.stopping = True
    stage.run(3)
    link = stage.links[0]
    assert FinishPipeline(KEY) in link.sent
    assert not [call for call in stage.leases.calls if call[0] == "leave"]
    stage.work.start("shard-2", 1, Held(1, TRIM_HORIZON, None, finishing=False))
    assert not [
        m for m in link.sent if isinstance(m, StartPipeline) and m.key.shard_id == "shard-2"
    ]
    link.received.append(PipelineFinished(KEY))
    stage.run(6)
    names = [call[0] for call in stage.leases.calls]
    assert names.index("finish") < names.index("leave")
    assert isinstance(link.sent[-1], Quit)


def test_a_stop_does_not_wait_for_a_delivery_past_its_time(stage: Stage) -> None:
    stage.stopping = True
    stage.run(80)
    assert [call for call in stage.leases.calls if call[0] == "leave"]
    assert not stage.worker.handed_back


def test_leases_are_not_released_before_a_runner_that_did_not_finish_has_ended(
    stage: Stage,
) -> None:
    stage.stopping = True
    stage.links[0].on_wait = lambda: stage.leases.calls.append(("the runner ended",))
    stage.run(80)
    assert stage.links[0].sent[-2:] == [StopPipeline(KEY), Quit()]
    assert [name for name, *_ in stage.leases.calls] == ["the runner ended", "leave"]
