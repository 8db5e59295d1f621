"""What travels with a plan is what the tasks would have read, and is little."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardline.core.planning.limits import Settings
from shardline.services.wire.columns import DYNAMODB_COLUMNS, KINESIS_COLUMNS
from shardline.spark.driver.inline_records import unpack
from tests.property.planning_query import KEYS, Query, TableWorld, World
from tests.twins.kinesis import KinesisTwin


@pytest.mark.case("R-10")
@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.integers(0, 400), min_size=1, max_size=20),
    table=st.booleans(),
    page_size=st.sampled_from([3, 20, 10_000]),
)
def test_what_travels_with_a_plan_is_what_would_be_read(
    steps: list[int], table: bool, page_size: int
) -> None:
    stream = TableWorld(shards=2) if table else World(KinesisTwin(shards=2))
    columns = DYNAMODB_COLUMNS if table else KINESIS_COLUMNS
    read_page = stream.service.read
    # Either service may answer with fewer records than were asked for.
    stream.service.read = lambda at, most: read_page(at, min(most, page_size))  # type: ignore[method-assign,assignment]
    query = Query(stream, max_records=60)
    for step in steps:
        if step % 4 == 0:
            stream.split(step // 4)
        for n in range(step // 4):
            stream.put(KEYS[n % len(KEYS)])
        query.settle(0.5)
        before = query.committed()
        if query.step() == -1:
            continue
        for item in query.ranges(before, query.last()):
            if item.inline is not None:
                read = pa.Table.from_batches(query.read_again(item), columns)
                assert pa.Table.from_batches(unpack(item.inline), columns) == read


def test_few_records_travel_and_are_not_read_again() -> None:
    stream = World(KinesisTwin())
    query = Query(stream)
    query.run_dry()
    stream.put(KEYS[0])
    before = query.committed()
    assert query.step_soon() == 1
    (item,) = query.ranges(before, query.last())
    assert item.inline


def test_many_bytes_do_not_travel() -> None:
    stream = World(KinesisTwin())
    query = Query(stream)
    query.run_dry()
    for _ in range(3):
        stream.twin.put(KEYS[0], b"x" * 1_000_000)
    before = query.committed()
    query.ask()
    query.settle(1.0)
    planned = query.ask()
    assert planned is not None
    (item,) = query.ranges(before, planned)
    assert item.inline is None


@pytest.mark.parametrize("finds_times", [True, False])
def test_all_that_travels_is_bounded_however_many_shards(finds_times: bool) -> None:
    assert Settings(finds_times=finds_times).inline_bytes(10_000) * 10_000 <= 8_000_000
