"""What a task read beyond its range serves the next one, and never changes what that gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardline.core.offsets import Range
from shardline.core.positions import TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from shardline.services.cursor import ShardCursor
from shardline.services.steps import run
from shardline.spark.executor.range_reader import RangeReader, ShardRange
from shardline.spark.executor.read_ahead import ReadAhead
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    import pyarrow as pa

    from shardline.services.port import Page

SHARD = "shardId-000000000000"


class Counted(KinesisTwin):
    reads = 0

    def read(self, iterator: str, max_records: int) -> Page:
        self.reads += 1
        return super().read(iterator, max_records)


def written(count: int) -> tuple[Counted, list[str]]:
    twin = Counted(1)
    return twin, [twin.put("a", str(n).encode()).sequence.text for n in range(count)]


def data(twin: KinesisTwin, after: Position, upto: str, cache: ReadAhead | None) -> list[bytes]:
    found: list[pa.RecordBatch] = []
    item = ShardRange(SHARD, Range(after, After(SequenceNumber(upto))))
    reader = RangeReader(twin, item, lambda _, page: found.append(page), cache=cache)
    run(reader.read_steps(), sleep=lambda _: None)
    return [value for page in found for value in page.column("data").to_pylist()]


def test_the_rest_of_a_page_serves_the_next_range_without_a_read() -> None:
    twin, numbers = written(10)
    cache = ReadAhead()
    first = data(twin, After(SequenceNumber(numbers[0]), -1), numbers[3], cache)
    assert first == [b"0", b"1", b"2", b"3"]
    reads = twin.reads
    second = data(twin, After(SequenceNumber(numbers[3])), numbers[9], cache)
    assert second == [b"4", b"5", b"6", b"7", b"8", b"9"]
    assert twin.reads == reads


def test_another_range_reads_from_the_stream() -> None:
    twin, numbers = written(10)
    cache = ReadAhead()
    data(twin, After(SequenceNumber(numbers[0]), -1), numbers[3], cache)
    again = data(twin, After(SequenceNumber(numbers[0]), -1), numbers[3], cache)
    assert again == [b"0", b"1", b"2", b"3"]


def test_the_oldest_are_dropped_first() -> None:
    twin, numbers = written(1)
    page = ShardCursor(twin, SHARD, TRIM_HORIZON).read(1).records
    cache = ReadAhead(most_bytes=page.get_total_buffer_size())
    place = After(SequenceNumber(numbers[0]))
    cache.keep(place, ShardCursor(twin, "a", place), page)
    cache.keep(place, ShardCursor(twin, "b", place), page)
    assert cache.take("a", place) is None
    kept = cache.take("b", place)
    assert kept is not None
    assert kept.records == page
