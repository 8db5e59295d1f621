"""Spark's questions are answered from a planner that runs on threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from shardline.core.offsets import Offset
from shardline.core.planning.limits import Settings
from shardline.core.positions import TRIM_HORIZON, After
from shardline.errors import ServiceUnreachable
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.spark.driver.inline_records import unpack
from shardline.spark.driver.plan_runner import PlanRunner
from tests.twins.dynamodb_streams import DynamoDBTwin
from tests.twins.kinesis import EPOCH, KinesisTwin

if TYPE_CHECKING:
    from shardline.services.port import StreamService

START = Offset(TRIM_HORIZON)
Runners = Callable[..., PlanRunner]


@pytest.fixture
def runners() -> Iterator[Runners]:
    made: list[PlanRunner] = []

    def runner(service: StreamService, *, fails: bool = True) -> PlanRunner:
        settings = Settings(finds_times=service.finds_times, fail_on_data_loss=fails)
        made.append(PlanRunner(service, settings))
        return made[-1]

    yield runner
    for each in made:
        with closing(each):
            pass


def next_batch(runner: PlanRunner, committed: Offset) -> Offset:
    while True:
        planned = runner.ask(committed, 1000)
        if planned is not None:
            return planned


def first_records(runner: PlanRunner) -> tuple[Offset, Offset]:
    """Return the first batch that holds records, after the offset before it.

    The first batch of all writes down the start; it holds records if those came soon enough.
    """
    committed, planned = START, next_batch(runner, START)
    while all(item.empty for item in planned.ranges.values()):
        committed, planned = planned, next_batch(runner, planned)
    return committed, planned


def test_a_batch_names_its_records_and_carries_them(runners: Runners) -> None:
    twin = KinesisTwin(1)
    numbers = [twin.put("key", b"data").sequence for _ in range(3)]
    twin.clock.advance(1)
    runner = runners(twin)
    committed, planned = first_records(runner)
    assert planned.created_at is not None
    (item,) = runner.ranges(committed, planned)
    assert item.range.upto == After(numbers[-1])
    assert item.hash_range is not None
    carried = [n for page in unpack(item.inline or b"") for n in page.column("sequenceNumber")]
    assert [number.as_py() for number in carried] == [number.text for number in numbers]


def test_a_batch_of_an_earlier_process_is_read_from_the_stream(runners: Runners) -> None:
    twin = KinesisTwin(1)
    twin.put("key", b"data")
    twin.clock.advance(1)
    committed, planned = first_records(runners(twin))
    (item,) = runners(twin).ranges(committed, planned)
    assert item.inline is None
    assert item.range == planned.ranges[item.shard_id]


def test_a_call_that_fails_for_good_fails_the_question(runners: Runners) -> None:
    twin = KinesisTwin(1)
    twin.account.faults.add("cut", operation="ListShards")
    with pytest.raises(ServiceUnreachable):
        next_batch(runners(twin), START)


@pytest.mark.req("K-02")
def test_a_gap_that_is_accepted_is_logged_once(
    runners: Runners, caplog: pytest.LogCaptureFixture
) -> None:
    twin = KinesisTwin(1)
    twin.put("key", b"data")
    twin.clock.advance(1)
    first = next_batch(runners(twin, fails=False), START)
    twin.clock.advance(30 * 3600)
    twin.put("key", b"data")
    with caplog.at_level(logging.WARNING):
        second = next_batch(runner := runners(twin, fails=False), first)
        assert len(second.gaps) == 1
        next_batch(runner, first)
        twin.put("key", b"data")
        next_batch(runners(twin, fails=False), second)
    logged = [line for line in caplog.messages if line.startswith("gap in shardId-000000000000")]
    assert len(logged) == 1


@pytest.mark.case("X-05")
@pytest.mark.parametrize("once", [False, True])
def test_the_bound_of_a_wait_for_an_open_shard_of_a_table_is_said(
    runners: Runners, caplog: pytest.LogCaptureFixture, once: bool
) -> None:
    tables = Tables(Clock(EPOCH))
    tables.create_table("users", shards=1)
    runner = runners(DynamoDBTwin(tables, "users"))
    with caplog.at_level(logging.WARNING):
        runner.pose(START, 1000, all_available=False)
        assert "30 s" not in caplog.text
        for _ in range(2):
            runner.pose(START, None, all_available=True) if once else runner.set_target()
    assert caplog.text.count("30 s of nothing but empty pages") == 1
