"""Rows as records to write."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shardline.errors import ConfigurationError
from shardline.spark.options import Connection
from shardline.spark.sink.options import Sink
from shardline.spark.sink.rows import RowEntries


def rows_of(*dedupe: str, has_hash_keys: bool = False) -> RowEntries:
    return RowEntries(Sink(Connection("kinesis://orders"), False, dedupe, 120.0, has_hash_keys))


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_become_entries_in_their_order() -> None:
    rows = batch(partitionKey=["a", "b"], data=["ж", "2"], explicitHashKey=[None, "17"])
    entries = list(rows_of(has_hash_keys=True).entries(rows))
    assert [(e.key, e.data, e.hash_key) for e in entries] == [
        ("a", "ж".encode(), None),
        ("b", b"2", "17"),
    ]


@pytest.mark.req("S-09")
@pytest.mark.parametrize("name", ["partitionKey", "data"])
def test_a_null_is_refused(name: str) -> None:
    columns: dict[str, list[Any]] = {"partitionKey": ["a", "b"], "data": [b"1", b"2"]}
    columns[name][1] = None
    with pytest.raises(ConfigurationError, match=f"{name} is null in 1 rows"):
        list(rows_of().entries(batch(**columns)))


@pytest.mark.req("S-12")
def test_positions_must_rise_for_each_key_also_from_batch_to_batch() -> None:
    rows = rows_of("sequenceNumber", "sub")

    def take(keys: list[str], numbers: list[str], subs: list[int | None]) -> None:
        data = [b""] * len(keys)
        list(rows.entries(batch(partitionKey=keys, data=data, sequenceNumber=numbers, sub=subs)))

    take(["a", "b", "a"], ["9", "1", "10"], [None, None, None])
    take(["a", "a"], ["10", "10"], [0, 1])
    with pytest.raises(ConfigurationError, match=r"key 'a' went from \(10, 1\) to \(10, 1\)"):
        take(["a"], ["10"], [1])
    with pytest.raises(ConfigurationError, match="'x' in column sequenceNumber is no whole"):
        take(["b"], ["x"], [0])
