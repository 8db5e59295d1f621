"""Dead letters as consumers write them, read back for the page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from shardline.core.promise import Fence
from shardline.dashboard.letters import folder_of, newest_letters
from shardline.services.columns import KINESIS_COLUMNS
from shardline.spark.consumer import ShardBatch
from shardline.spark.dead_letters import _FolderOfLetters

if TYPE_CHECKING:
    from pathlib import Path


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


def test_the_newest_letters_are_shown_and_half_a_line_is_not(tmp_path: Path) -> None:
    _FolderOfLetters(tmp_path).write(batch(range(80)), "bad")
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write('{"id": "being wri')
    found = newest_letters(folder_of(f"file://{tmp_path}"))
    assert [int(one.sequence_number) for one in found] == list(range(30, 80))
    assert (found[0].shard_id, found[0].partition_key, found[0].reason) == ("s", "key", "bad")
    assert found[0].payload == "payload \\xff"


def test_no_folder_means_no_letters(tmp_path: Path) -> None:
    assert newest_letters(tmp_path / "none") == ()
