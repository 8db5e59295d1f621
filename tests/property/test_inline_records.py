"""What a plan carries to the executors is what they would have read, and is no more than little."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardline.local.kinesis.twin import KinesisTwin
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS
from shardline.spark.driver.inline_records import most_bytes, unpack
from tests.property.planning_query import KEYS, Query, TableWorld, World


@pytest.mark.case("R-10")
@settings(max_examples=100)
@given(
    steps=st.lists(st.integers(0, 400), min_size=1, max_size=30),
    table=st.booleans(),
    page_size=st.sampled_from([3, 20, 10_000]),
)
def test_what_a_plan_carries_is_what_would_be_read(
    steps: list[int], table: bool, page_size: int
) -> None:
    stream = TableWorld(shards=2) if table else World(KinesisTwin(shards=2))
    columns = DYNAMODB_COLUMNS if table else KINESIS_COLUMNS
    read_page = stream.service.read
    # Either service may answer with fewer records than were asked for.
    stream.service.read = lambda at, most: read_page(at, min(most, page_size))  # type: ignore[method-assign,assignment]
    query = Query(stream)
    for step in steps:
        if step % 4 == 0:
            stream.split(step // 4)
        for n in range(step // 4):
            stream.put(KEYS[n % len(KEYS)])
        stream.clock.advance(1)
        committed = query.last() if query.offsets else query.planner.beginning()
        planned = query.planner.plan(committed, 60)
        if planned is None:
            continue
        query.offsets.append(json.dumps(planned.to_json()))
        for shard_id, item in query.planner.confirm(committed, planned).items():
            sent = query.planner.to_read(shard_id, item)
            assert query.planner.to_read(shard_id, item).carried is None, "sent twice"
            if sent.carried is not None:
                read = pa.Table.from_batches(query.records(shard_id, item), columns)
                assert pa.Table.from_batches(unpack(sent.carried), columns) == read


def test_few_records_are_carried_and_not_read_again() -> None:
    stream = World(KinesisTwin())
    query = Query(stream)
    query.step()
    stream.put(KEYS[0])
    stream.clock.advance(1)
    planned = query.planner.plan(query.last(), 60)
    assert planned is not None
    ((shard_id, item),) = query.planner.confirm(query.last(), planned).items()
    assert query.planner.to_read(shard_id, item).carried


def test_many_bytes_are_not_carried() -> None:
    stream = World(KinesisTwin())
    query = Query(stream)
    query.step()
    for _ in range(3):
        stream.twin.put(KEYS[0], b"x" * most_bytes(1))
    stream.clock.advance(1)
    planned = query.planner.plan(query.last(), 60)
    assert planned is not None
    ((shard_id, item),) = query.planner.confirm(query.last(), planned).items()
    assert query.planner.to_read(shard_id, item).carried is None


def test_all_that_is_carried_is_bounded_however_many_shards() -> None:
    assert most_bytes(10_000) * 10_000 <= 4_000_000
