"""What a task read beyond its range serves the next range, and is never depended on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardline.core.offsets import Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from shardline.local.kinesis.twin import KinesisTwin
from shardline.services.cursor import ShardCursor
from shardline.spark.executor.read_ahead_cache import Leftover, Leftovers
from shardline.spark.executor.reader import ShardRange, read_range

if TYPE_CHECKING:
    from shardline.services.port import Page

SHARD = "shardId-000000000000"


class Counted(KinesisTwin):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.read_pages = 0
        self.places = [After(self.put("key", b"%d" % n).sequence) for n in range(30)]

    def open(self, shard_id: str, position: Position) -> str:
        self.opened += 1
        return super().open(shard_id, position)

    def read(self, iterator: str, max_records: int) -> Page:
        self.read_pages += 1
        return super().read(iterator, max_records)

    def numbers(self, after: Position, upto: Position, leftovers: Leftovers) -> list[int]:
        item = ShardRange(SHARD, Range(after, upto, None))
        pages = read_range(self, item, leftovers, sleep=lambda _: None)
        return [int(data) for page in pages for data in page.column("data").to_pylist()]


def test_a_page_serves_the_ranges_that_lie_in_it() -> None:
    twin, leftovers = Counted(), Leftovers()
    assert twin.numbers(TRIM_HORIZON, twin.places[9], leftovers) == list(range(10))
    assert twin.numbers(twin.places[9], twin.places[19], leftovers) == list(range(10, 20))
    assert twin.numbers(twin.places[19], twin.places[29], leftovers) == list(range(20, 30))
    assert (twin.opened, twin.read_pages) == (1, 1)
    twin.put("key", b"30")
    last = After(twin.put("key", b"31").sequence)
    assert twin.numbers(twin.places[29], last, leftovers) == [30, 31]
    assert (twin.opened, twin.read_pages) == (1, 2), "the iterator goes on too"


def test_a_range_that_begins_elsewhere_is_read_from_the_stream() -> None:
    twin, leftovers = Counted(), Leftovers()
    twin.numbers(TRIM_HORIZON, twin.places[9], leftovers)
    for _ in range(2):  # the same batch once more, as when its sink asks for it again
        assert twin.numbers(TRIM_HORIZON, twin.places[9], leftovers) == list(range(10))
    assert twin.numbers(twin.places[14], twin.places[19], leftovers) == list(range(15, 20))


@pytest.mark.case("R-09")
def test_the_end_of_a_shard_is_served_once_and_not_read_again() -> None:
    twin, leftovers = Counted(), Leftovers()
    twin.split(SHARD)
    twin.numbers(TRIM_HORIZON, twin.places[9], leftovers)
    assert twin.numbers(twin.places[9], SHARD_END, leftovers) == list(range(10, 30))
    assert twin.read_pages == 1


def test_the_oldest_are_dropped_when_they_are_too_much() -> None:
    twin = Counted()
    page = ShardCursor(twin, SHARD, TRIM_HORIZON).read(100)
    size = page.records.get_total_buffer_size()
    leftovers = Leftovers(most_bytes=2 * size)
    for n in range(3):
        cursor = ShardCursor(twin, f"shard-{n}", TRIM_HORIZON)
        leftovers.keep(Leftover(After(SequenceNumber("7")), cursor, page.records))
    kept = [leftovers.take(f"shard-{n}", After(SequenceNumber("7"))) for n in range(3)]
    assert [each is not None for each in kept] == [False, True, True]
