"""Records that travel with a plan arrive as they were read."""

from __future__ import annotations

import pyarrow as pa

from shardline.spark.driver.inline_records import pack, unpack


def test_records_arrive_as_they_were_read() -> None:
    pages = [
        pa.RecordBatch.from_pydict({"data": [b"a", b""]}),
        pa.RecordBatch.from_pydict({"data": [b"c"]}),
    ]
    assert list(unpack(pack(pages))) == pages


def test_nothing_travels_as_nothing() -> None:
    assert pack([]) == b""
    assert list(unpack(b"")) == []
