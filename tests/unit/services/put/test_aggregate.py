"""Packed records are those of the Kinesis Producer Library, byte for byte, and split again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shardline.core.writes.entries import make_entry
from shardline.services.aggregation import split_aggregated
from shardline.services.put.aggregate import aggregated
from shardline.services.wire.columns import KINESIS_COLUMNS
from tests.unit.services.kpl import (
    AWS_DIGESTS,
    SIZES,
    UserRecord,
    aggregate,
    digest_of,
    samples,
)


@pytest.mark.req("S-08")
def test_a_packed_record_is_what_aws_s_own_aggregator_writes() -> None:
    records = samples()["one key often"]
    packed = aggregated([make_entry(each.key, each.data, each.hash_key) for each in records])
    assert digest_of(packed) == AWS_DIGESTS["one key often"]


@pytest.mark.req("S-08")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("key", "hash_key"), [("a", None), ("ж" * 128, "17")])
def test_packed_records_of_every_size(size: int, key: str, hash_key: str | None) -> None:
    """The encoder of the tests is held to AWS's by digests, and has nothing of this one."""
    contents = [b"", bytes(size), b"x"]
    packed = aggregated([make_entry(key, data, hash_key) for data in contents])
    assert packed == aggregate([UserRecord(key, data, hash_key) for data in contents])
    row = {"partitionKey": key, "data": packed, "sequenceNumber": "1"}
    columns = [pa.array([row.get(field.name)], field.type) for field in KINESIS_COLUMNS]
    page = pa.RecordBatch.from_arrays(columns, schema=KINESIS_COLUMNS)
    split = split_aggregated(page)
    assert split.column("data").to_pylist() == contents
    assert split.column("partitionKey").to_pylist() == [key] * 3
