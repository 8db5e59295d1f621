"""A task reads many shards at once: each in its order, within a bound, and all or an error."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from shardline.core.offsets import Range
from shardline.core.positions import After
from shardline.core.shards import SequenceNumber
from shardline.errors import ServiceUnreachable
from shardline.local.clock import Clock
from shardline.services.clock import boot_seconds
from shardline.services.pace import MIB
from shardline.spark.driver.inline_records import pack
from shardline.spark.executor.range_reader import ShardRange
from shardline.spark.executor.task_reader import StreamAccess, read_ranges
from tests.twins.kinesis import KinesisTwin, Written

if TYPE_CHECKING:
    from shardline.services.port import Page


class Stream(KinesisTwin):
    broken = ""

    def read(self, iterator: str, max_records: int) -> Page:
        page = super().read(iterator, max_records)
        if self.broken and page.records.num_rows:
            raise ServiceUnreachable(self.broken)
        return page


def written(records: int, shards: int = 3) -> tuple[Stream, dict[str, list[Written]]]:
    twin, puts = Stream(shards, clock=Clock()), defaultdict(list)
    for number in range(records):
        put = twin.put(f"key-{number % 17}", str(number).encode())
        puts[put.shard_id].append(put)
    return twin, puts


def whole(shard_id: str, puts: list[Written]) -> ShardRange:
    return ShardRange(shard_id, Range(After(puts[0].sequence, -1), After(puts[-1].sequence)))


def test_every_shard_is_read_whole_and_in_its_order() -> None:
    twin, puts = written(300)
    ranges = tuple(whole(shard_id, written) for shard_id, written in puts.items())
    found: dict[str, list[str]] = defaultdict(list)
    for shard_id, page in read_ranges(StreamAccess(twin), ranges, most_bytes=1):
        found[shard_id] += page.column("sequenceNumber").to_pylist()
    assert found == {k: [put.sequence.text for put in v] for k, v in puts.items()}


@pytest.mark.case("Y-01")
def test_a_task_counts_what_planning_has_read_of_a_shard() -> None:
    twin, puts = written(10, shards=1)
    ((shard_id, records),) = puts.items()
    access = StreamAccess(twin)
    item = replace(whole(shard_id, records), spent_bytes=5 * MIB)
    for _ in read_ranges(access, (item,)):
        pass
    assert access.pace_of(shard_id).wait_seconds(boot_seconds()) > 0, "of five, two come a second"


def test_what_travelled_with_the_task_is_not_read() -> None:
    twin, _ = written(10)
    twin.broken = "this shard must not be read"
    page = pa.RecordBatch.from_pydict({"data": [b"a"]})
    place = After(SequenceNumber("1"))
    ranges = (ShardRange("shard", Range(place, place), pack([page])),)
    assert list(read_ranges(StreamAccess(twin), ranges)) == [("shard", page)]


def test_an_error_of_one_shard_fails_the_task() -> None:
    twin, puts = written(30)
    twin.broken = "the service is away"
    ranges = tuple(whole(shard_id, written) for shard_id, written in puts.items())
    with pytest.raises(ServiceUnreachable, match="away"):
        list(read_ranges(StreamAccess(twin), ranges))
