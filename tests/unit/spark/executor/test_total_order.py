"""All shards of a task as one sequence: by lineage, then by shard, then by time, then by clock."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.offsets import Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON
from shardline.errors import GapError
from shardline.services.wire.columns import KINESIS_COLUMNS
from shardline.spark.driver.inline_records import pack
from shardline.spark.executor.range_reader import ShardRange
from shardline.spark.executor.total_order import merged_rows

TIME = "approximateArrivalTimestamp"
SCHEMA = pa.schema([pa.field("name", pa.string()), KINESIS_COLUMNS.field(TIME)])
NOWHERE = cast("Any", None)
"""Records that travel with the plan need no service."""


def page(names: list[str], times: list[int]) -> pa.RecordBatch:
    stamps = pa.array(times, pa.int64()).cast(SCHEMA.field(TIME).type)
    return pa.RecordBatch.from_arrays([pa.array(names, pa.string()), stamps], schema=SCHEMA)


def shard(name: str, times: list[int], cut: int, parents: tuple[str, ...] = ()) -> ShardRange:
    names = [f"{name}.{n}" for n in range(len(times))]
    pages = [page(names[at : at + cut], times[at : at + cut]) for at in range(0, len(times), cut)]
    return ShardRange(name, Range(TRIM_HORIZON, SHARD_END), inline=pack(pages), parents=parents)


def names_in(ranges: list[ShardRange]) -> list[str]:
    merged = merged_rows(NOWHERE, ranges, lambda _, rows: rows)
    return [name for rows in merged for name in rows.column("name").to_pylist()]


def by_the_rule(shards: list[tuple[str, list[int], tuple[str, ...]]]) -> list[str]:
    """Return the order that the rule gives, one record at a time."""
    at = {name: 0 for name, _, _ in shards}
    size = {name: len(times) for name, times, _ in shards}
    ancestors: dict[str, set[str]] = {}
    for name, _, parents in shards:
        known = [parent for parent in parents if parent in at]
        ancestors[name] = set(known).union(*(ancestors[parent] for parent in known))
    order: list[str] = []
    while at != size:
        ready = [
            (max(times[: at[name] + 1]), clock, name)
            for clock, (name, times, _) in enumerate(shards)
            if at[name] < size[name] and all(at[p] == size[p] for p in ancestors[name])
        ]
        _, _, name = min(ready)
        order.append(f"{name}.{at[name]}")
        at[name] += 1
    return order


TIMES = st.lists(st.integers(0, 12), max_size=9)


@pytest.mark.req("P-05", "C-18", "C-25", "C-26")
@pytest.mark.case("T-04", "T-05", "T-06")
@given(st.lists(TIMES, min_size=1, max_size=6), st.data(), st.integers(1, 4))
def test_the_order_is_that_of_the_rule_however_pages_are_cut(
    all_times: list[list[int]], data: st.DataObject, cut: int
) -> None:
    names = [f"s{n}" for n in range(len(all_times))]
    parents = [
        tuple(data.draw(st.lists(st.sampled_from(names[:n]), max_size=2, unique=True))) if n else ()
        for n in range(len(names))
    ]
    parents = [(*each, "expired") for each in parents]  # one that is not among the ranges
    ranges = [
        shard(*each) for each in zip(names, all_times, [cut] * len(names), parents, strict=True)
    ]
    expected = by_the_rule(list(zip(names, all_times, parents, strict=True)))
    assert names_in(ranges) == expected


def test_a_shard_that_fails_fails_the_task() -> None:
    class Pool:
        def submit(self, _: Any, done: Any) -> None:
            threading.Thread(target=done, args=(None, GapError("gone"))).start()

    access: Any = SimpleNamespace(
        service=None, pool=Pool(), pace_of=lambda _: None, read_ahead=None
    )
    ranges = [ShardRange("a", Range(TRIM_HORIZON, SHARD_END)), shard("b", [1], 1)]
    with pytest.raises(GapError, match="gone"):
        list(merged_rows(access, ranges, lambda _, rows: rows))
