"""The selection of records by key."""

from __future__ import annotations

import pytest

from shardline.cli.tail import has_key
from shardline.services.records import DynamoDBRecord, KinesisRecord


@pytest.mark.parametrize(
    ("key", "found"),
    [("17", True), ("id=17", True), ("a", True), ("kind=a", True), ("id=a", False), ("7", False)],
)
def test_an_item_is_found_by_a_value_of_its_key(key: str, found: bool) -> None:
    record = DynamoDBRecord(
        "s", "1", 0, "e", "INSERT", "1.1", '{"id": {"N": "17"}, "kind": {"S": "a"}}', None, None, 9,
        None,
    )  # fmt: skip
    assert has_key(record, key) is found


def test_a_record_is_found_by_its_whole_partition_key() -> None:
    record = KinesisRecord("s", "1", 0, "id=17", b"")
    assert has_key(record, "id=17")
    assert not has_key(record, "17")
