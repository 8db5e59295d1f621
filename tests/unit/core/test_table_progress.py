"""The segments of a table in the batches of a query."""

from __future__ import annotations

import pytest

from shardline.core.offsets import Offset
from shardline.core.positions import LATEST
from shardline.core.table_progress import TableProgress, segments_for
from shardline.errors import InvalidPosition


def test_batches_hold_every_segment_once_and_about_as_many_items_as_asked_for() -> None:
    progress, done = TableProgress(segments=7, items=700), []
    while not progress.finished:
        progress = progress.next(250)
        done.append(progress.done)
    assert done == [2, 4, 6, 7]
    assert TableProgress(7, 700, 3).next(None).done == 7
    assert TableProgress(7, 700, 3).next(1).done == 4, "at least one segment"
    assert TableProgress(7, 0, 0).next(5).done == 5, "an empty count is taken for one item each"


def test_an_offset_carries_the_progress() -> None:
    offset = Offset(LATEST, table=TableProgress(7, 700, 3))
    written = offset.to_json()
    assert list(written) == sorted(written)
    assert Offset.from_json(written) == offset
    assert "table" not in Offset(LATEST).to_json()
    unresolved = TableProgress(segments=0)
    assert not unresolved.resolved
    assert not unresolved.finished
    assert Offset.from_json(Offset(LATEST, table=unresolved).to_json()).table == unresolved
    with pytest.raises(InvalidPosition, match="damaged"):
        Offset.from_json(written | {"table": {"done": 8, "items": 1, "segments": 7}})


def test_a_large_table_has_more_segments_than_tasks() -> None:
    def segments(items: int, size_bytes: int) -> int:
        return segments_for(items, size_bytes, max_items=1000, tasks=4, most=9_999)

    assert segments(0, 0) == 4
    assert segments(9_500, 0) == 10
    assert segments(10, 1 << 30) == 32
    assert segments(10**9, 1 << 50) == 9_999
    assert segments_for(10**9, 0, max_items=None, tasks=1, most=9_999) == 1
