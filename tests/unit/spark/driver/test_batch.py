"""A bounded read: where each shard's range begins and ends."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import SHARD_END, After
from shardline.errors import ConfigurationError
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.steps import run
from shardline.spark.driver.batch import ShardedReader, plan_once
from shardline.spark.driver.pushed_filters import Wanted
from shardline.spark.options import read_options
from tests.twins.dynamodb_streams import DynamoDBTwin
from tests.twins.kinesis import EPOCH, KinesisTwin

if TYPE_CHECKING:
    from shardline.core.shards import Shard
    from shardline.spark.executor.range_reader import ShardRange

PARENT = "shardId-000000000000"


def plan(
    service: Any, clock: Clock, wanted: Wanted | None = None, **given: str
) -> list[ShardRange]:
    named = {"streamName": "twin"} if service.finds_times else {"tableName": "users"}
    options = read_options(
        "kinesis" if service.finds_times else "dynamodb-streams",
        named | {"startingPosition": "trim_horizon"} | given,
    )
    return plan_once(
        service,
        options,
        wanted or Wanted(),
        clock=lambda: clock.now_ms() / 1000,
        run_all=lambda planned: [
            run(one, sleep=lambda seconds: clock.advance(max(0.001, seconds))) for one in planned
        ],
    )


def split_stream() -> tuple[KinesisTwin, list[str]]:
    """Return a stream of a parent and two children, with three records in each."""
    twin = KinesisTwin(1)
    numbers = []
    for _ in range(3):
        numbers.append(twin.put("key", b"data", hash_key=0).sequence.text)
        twin.clock.advance(1)
    twin.split(PARENT)
    for _ in range(3):
        for hash_key in (0, 2**128 - 1):
            put = twin.put("key", b"data", hash_key=hash_key)
            numbers.append(put.sequence.text)
        twin.clock.advance(1)
    return twin, numbers


@pytest.mark.req("O-03")
def test_parents_come_first_and_are_read_to_their_end() -> None:
    twin, numbers = split_stream()
    planned = plan(twin, twin.clock)
    assert [item.shard_id for item in planned] == [PARENT, *sorted(i.shard_id for i in planned[1:])]
    assert planned[0].range.upto == SHARD_END
    ends = [item.range.upto for item in planned[1:]]
    assert {str(end.sequence) for end in ends if isinstance(end, After)} == set(numbers[-2:])
    assert [item.parents for item in planned] == [(), (PARENT,), (PARENT,)]
    assert all(item.hash_range is not None for item in planned)


def test_what_arrives_after_the_start_of_a_read_is_not_in_it() -> None:
    twin, _numbers = split_stream()
    began = twin.clock.now()
    twin.clock.advance(10)
    ended = plan(twin, twin.clock, endingPosition=began.isoformat())
    twin.put("key", b"data", hash_key=0)
    twin.clock.advance(10)
    assert [i.range.upto for i in plan(twin, twin.clock, endingPosition=began.isoformat())] == [
        i.range.upto for i in ended
    ]


def test_only_what_filters_leave_is_planned() -> None:
    twin, numbers = split_stream()
    only = Wanted(shards=frozenset({PARENT}))
    assert [item.shard_id for item in plan(twin, twin.clock, only)] == [PARENT]
    late = Wanted(since=twin.clock.now() - timedelta(seconds=1, milliseconds=500))
    begins = [item.range.after for item in plan(twin, twin.clock, late)]
    assert {str(at.sequence) for at in begins if isinstance(at, After)} == set(numbers[-2:])


@pytest.mark.case("X-04")
def test_an_open_shard_of_a_table_is_waited_for_within_a_bound_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tables = Tables(Clock(EPOCH))
    tables.create_table("users", shards=1)
    keys = {"id": {"S": "a"}}
    put = tables.put_change("users", keys, new=keys)
    began = tables.clock.now()
    with caplog.at_level(logging.WARNING):
        (item,) = plan(DynamoDBTwin(tables, "users"), tables.clock)
    assert isinstance(item.range.upto, After)
    assert int(item.range.upto.sequence) == int(put.sequence_number)
    waited = tables.clock.now() - began
    assert timedelta(seconds=30) <= waited < timedelta(seconds=40)
    assert "30 s of nothing but empty pages" in caplog.text


@pytest.mark.case("X-04")
def test_a_closed_shard_of_a_table_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    tables = Tables(Clock(EPOCH))
    (shard,) = tables.create_table("users", shards=1).shards
    keys = {"id": {"S": "a"}}
    tables.put_change("users", keys, new=keys)
    tables.roll("users", shard)
    began = tables.clock.now()
    with caplog.at_level(logging.WARNING):
        (item,) = plan(
            DynamoDBTwin(tables, "users"), tables.clock, Wanted(shards=frozenset({shard}))
        )
    assert item.range.upto == SHARD_END
    assert tables.clock.now() - began < timedelta(seconds=5)
    assert not caplog.messages


class _StaleListing(DynamoDBTwin):
    """Shows for three seconds what it listed first."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables, "users")
        self._first = super().list_shards()
        self._fresh_at = tables.clock.now() + timedelta(seconds=3)

    def list_shards(self) -> tuple[Shard, ...]:
        stale = self._clock.now() < self._fresh_at
        return self._first if stale else super().list_shards()


@pytest.mark.case("L-12")
def test_the_children_that_a_stale_listing_of_a_table_hides_are_read() -> None:
    tables = Tables(Clock(EPOCH))
    (parent,) = tables.create_table("users", shards=1).shards
    keys = {"id": {"S": "a"}}
    tables.put_change("users", keys, new=keys)
    service = _StaleListing(tables)
    tables.roll("users", parent)
    tables.put_change("users", keys, new=keys)
    planned = plan(service, tables.clock)
    assert [item.shard_id == parent for item in planned] == [True, False]
    assert planned[0].range.upto == SHARD_END


def test_a_read_cannot_end_at_the_horizon() -> None:
    options = read_options("kinesis", {"streamName": "s", "endingPosition": "trim_horizon"})
    with pytest.raises(ConfigurationError, match="endingPosition"):
        ShardedReader(options)
