"""Dead letters as consumers write them, read back for the page."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from shardline.consumer.consumer import ShardBatch
from shardline.consumer.dead_letters import open_dead_letters
from shardline.core.fences import Fence
from shardline.errors import ConfigurationError
from shardline.local import Service
from shardline.observation.dead_letter_reader import open_letters
from shardline.services.access import Access
from shardline.services.wire.columns import KINESIS_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

    from shardline.observation.dead_letter_reader import LetterReader
    from shardline.observation.snapshot import DeadLetter


def batch(numbers: range) -> ShardBatch:
    now = datetime.now(UTC)
    rows = [
        {
            "partitionKey": "key",
            "data": b"payload \xff",
            "sequenceNumber": str(number),
            "approximateArrivalTimestamp": now,
        }
        for number in numbers
    ]
    return ShardBatch("s", Fence(), pa.RecordBatch.from_pylist(rows, KINESIS_COLUMNS))


def write(address: str, numbers: range, endpoint_url: str | None = None) -> None:
    open_dead_letters(address, Access(endpoint_url=endpoint_url)).write(batch(numbers), "bad")


def until_there(letters: LetterReader, count: int) -> tuple[DeadLetter, ...]:
    deadline = time.monotonic() + 30
    while len(found := letters.newest()) < count and time.monotonic() < deadline:
        pass
    return found


def test_the_newest_letters_are_shown_and_half_a_line_is_not(tmp_path: Path) -> None:
    address = f"file://{tmp_path}"
    write(address, range(80))
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write('{"id": "being wri')
    found = open_letters(address, Access()).newest()
    assert [int(one.sequence_number) for one in found] == list(range(30, 80))
    assert (found[0].shard_id, found[0].partition_key, found[0].reason) == ("s", "key", "bad")
    assert found[0].payload == "payload \\xff"


def test_no_folder_means_no_letters(tmp_path: Path) -> None:
    assert open_letters(f"file://{tmp_path}/none", Access()).newest() == ()


def test_letters_of_a_stream_are_shown_and_other_records_are_not() -> None:
    with Service(strict=True, status_delay_seconds=0) as service:
        service.create_stream("letters", 1)
        service.client().put_record(StreamName="letters", PartitionKey="a", Data=b'{"no": 1}')
        write("kinesis://letters", range(60), service.endpoint_url)
        letters = open_letters("kinesis://letters", Access(endpoint_url=service.endpoint_url))
        found = until_there(letters, 50)
        assert [int(one.sequence_number) for one in found] == list(range(10, 60))
        write("kinesis://letters", range(60, 61), service.endpoint_url)
        while found[-1].sequence_number != "60":
            found = letters.newest()
        letters.close()


@pytest.mark.parametrize("address", ["x", "file://relative", "kinesis://", "s3://bucket"])
def test_another_place_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(ConfigurationError, match="is no place for dead letters: write"):
        open_letters(address, Access())
