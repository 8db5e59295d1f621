"""From a planned batch to tasks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardline.core.offsets import Offset, Range
from shardline.core.planning.limits import INLINE_BYTES
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After
from shardline.core.shards import SequenceNumber
from shardline.services.steps import run
from shardline.spark.driver.orders import Orders
from shardline.spark.driver.task_plan import confirm, tasks
from shardline.spark.executor.range_reader import ShardRange
from tests.twins.kinesis import KinesisTwin

PLACE = After(SequenceNumber("1"))


def ranges(count: int, inline: bytes | None = None) -> list[ShardRange]:
    return [ShardRange(f"shard-{n:03}", Range(PLACE, PLACE), inline) for n in range(count)]


def sizes(count: int, shards_per_task: int | None, cores: int) -> list[int]:
    return [len(task) for task in tasks(ranges(count), shards_per_task, cores)]


def test_as_many_tasks_as_cores_until_each_has_enough_shards() -> None:
    assert sizes(1, None, 2) == [1]
    assert sizes(8, None, 2) == [4, 4]
    assert sizes(64, None, 2) == [16] * 4
    assert sizes(10, 3, 2) == [3, 3, 2, 2]


def test_records_that_travel_need_one_task() -> None:
    assert [len(task) for task in tasks(ranges(20, b""), None, 4)] == [20]
    mixed = tasks([*ranges(3, b""), *ranges(2)], None, 2)
    assert [len(task) for task in mixed] == [4, 1]


def test_a_task_carries_no_more_than_spark_accepts_without_a_warning() -> None:
    half = b"x" * (INLINE_BYTES // 2)
    assert [len(task) for task in tasks(ranges(5, half), None, 4)] == [2, 2, 1]
    mixed = tasks([*ranges(3, half), *ranges(1)], None, 2)
    assert [len(task) for task in mixed] == [3, 1]


def test_every_range_is_read_once_and_whole() -> None:
    shared = tasks(ranges(37), None, 4)
    assert sorted(item.shard_id for task in shared for item in task) == [
        f"shard-{n:03}" for n in range(37)
    ]
    assert tasks([], None, 4) == ()


@pytest.mark.req("O-03")
def test_the_end_of_an_empty_shard_that_is_gone_meanwhile_is_no_gap() -> None:
    twin = KinesisTwin(1)
    parent = twin.list_shards()[0].id
    twin.split(parent)
    now = twin.clock.now()
    committed = Offset(TRIM_HORIZON, now, {parent: Range(TRIM_HORIZON, TRIM_HORIZON, now)})
    planned = Offset(TRIM_HORIZON, now, {parent: Range(TRIM_HORIZON, SHARD_END, now)})
    for passed, ranges in ((timedelta(0), 1), (timedelta(hours=60), 0)):
        twin.clock.advance(passed.total_seconds())
        confirmed = confirm(
            twin,
            Orders(twin, lambda: 0.0),
            committed,
            planned,
            fail_on_data_loss=True,
            run_all=lambda steps: [run(one) for one in steps],
        )
        assert len(confirmed.ranges) == ranges
        assert confirmed.gaps == ()


@pytest.mark.req("K-02")
def test_the_gap_of_a_first_batch_covers_all_that_it_held() -> None:
    twin = KinesisTwin(1)
    born = twin.clock.now()
    put = twin.put("key", b"data")
    planned = Offset(
        TRIM_HORIZON,
        born,
        {put.shard_id: Range(After(put.sequence, -1), After(put.sequence), born)},
    )
    twin.clock.advance(30 * 3600)
    confirmed = confirm(
        twin,
        Orders(twin, lambda: 0.0),
        Offset(TRIM_HORIZON),
        planned,
        fail_on_data_loss=False,
        run_all=lambda steps: [run(one) for one in steps],
    )
    assert [gap.since for gap in confirmed.gaps] == [born]
