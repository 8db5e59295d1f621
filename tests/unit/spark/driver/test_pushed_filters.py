"""Filters narrow a bounded read, and never to less than they keep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from shardline.spark.driver.pushed_filters import Wanted, filters_are_pushed, wanted_by

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR, MARGIN = timedelta(hours=1), timedelta(minutes=2)
ARRIVED = ("approximateArrivalTimestamp",)
CREATED = ("approximateCreationDateTime",)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([], Wanted()),
        ([GreaterThan(ARRIVED, NOON)], Wanted(since=NOON - MARGIN)),
        ([GreaterThanOrEqual(CREATED, NOON)], Wanted(since=NOON - MARGIN)),
        ([LessThan(ARRIVED, NOON)], Wanted(until=NOON + MARGIN)),
        ([LessThanOrEqual(CREATED, NOON)], Wanted(until=NOON + MARGIN)),
        ([EqualTo(ARRIVED, NOON)], Wanted(since=NOON - MARGIN, until=NOON + MARGIN)),
        (
            [GreaterThan(ARRIVED, NOON), GreaterThan(ARRIVED, NOON + HOUR)],
            Wanted(since=NOON + HOUR - MARGIN),
        ),
        (
            [LessThan(ARRIVED, NOON), LessThan(ARRIVED, NOON + HOUR)],
            Wanted(until=NOON + MARGIN),
        ),
        ([EqualTo(("shardId",), "a")], Wanted(shards=frozenset("a"))),
        ([In(("shardId",), ("a", "b"))], Wanted(shards=frozenset("ab"))),
        (
            [In(("shardId",), ("a", "b")), EqualTo(("shardId",), "b")],
            Wanted(shards=frozenset("b")),
        ),
        ([EqualTo(("shardId",), "a"), EqualTo(("shardId",), "b")], Wanted(shards=frozenset())),
        ([EqualTo(("stream",), "orders")], Wanted(streams=frozenset(["orders"]))),
    ],
)
def test_what_filters_leave(filters: list[Filter], wanted: Wanted) -> None:
    assert wanted_by(filters) == wanted


@pytest.mark.parametrize(
    "one",
    [
        Not(EqualTo(("shardId",), "a")),
        IsNotNull(("shardId",)),
        IsNotNull(ARRIVED),
        Not(GreaterThan(ARRIVED, NOON)),
        GreaterThan(ARRIVED, NOON.replace(tzinfo=None)),
        GreaterThan(("data", "shardId"), "a"),
        GreaterThan(("shardId",), "a"),
        EqualTo(("partitionKey",), "a"),
    ],
)
def test_what_says_nothing_of_it_leaves_everything(one: Filter) -> None:
    assert wanted_by([one]) == Wanted()
    shard = EqualTo(("shardId",), "a")
    assert wanted_by([one, shard]) == wanted_by([shard, one]) == Wanted(shards=frozenset("a"))


def test_no_filters_are_pushed_in_any_other_process() -> None:
    assert not filters_are_pushed()
