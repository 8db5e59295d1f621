"""Records as text: safe on a terminal, whole for programs. And times as people write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from shardline.cli.printing import as_plain, payload_text
from shardline.cli.since import parse_since
from shardline.cli.tail import has_key
from shardline.errors import InvalidPosition
from shardline.services.records import DynamoDBRecord, KinesisRecord

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hello", "hello"),
        (b"\x1b[2J\x07", "\\x1b[2J\\x07"),
        (b'{"a": 1}', '{"a": 1}'),
        (b'{"a": "\\u001b[31m"}', '{"a": "\\u001b[31m"}'),
        (b"\xff\x00", "ff 00"),
        (b"42", "42"),
        (b"", ""),
    ],
)
def test_a_payload_is_shown_and_never_acted_on(data: bytes, text: str) -> None:
    assert payload_text(data) == text


def test_long_json_is_indented_and_long_bytes_are_counted() -> None:
    assert payload_text(json.dumps({"a": "x" * 200}).encode()).startswith('{\n  "a": "xxx')
    assert payload_text(b"\xff" * 1000).endswith("… (1000 bytes)")


def test_json_keeps_text_as_text_and_bytes_in_base64() -> None:
    plain = as_plain(KinesisRecord("s", "1", 0, "key", b"text"))
    assert (plain["partition_key"], plain["data"]) == ("key", "text")
    assert as_plain(KinesisRecord("s", "1", 0, "key", b"\xff"))["data_base64"] == "/w=="


def test_a_change_of_a_table_has_its_images() -> None:
    record = DynamoDBRecord(
        "s", "1", 0, "e", "INSERT", "1.1", '{"id":{"S":"a"}}', '{"id":{"S":"a"}}', None, 1, None
    )
    plain = as_plain(record)
    assert plain["event_name"] == "INSERT"
    assert plain["new"] == {"id": {"S": "a"}}
    assert plain["old"] is None


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("latest", "latest"),
        ("TRIM_HORIZON", "trim_horizon"),
        ("10m", NOW - timedelta(minutes=10)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("2D", NOW - timedelta(days=2)),
        ("2026-11-15T11:00:00Z", NOW - timedelta(hours=1)),
        ("2026-11-15T12:00:00+01:00", NOW - timedelta(hours=1)),
    ],
)
def test_places_and_times_are_understood(text: str, meaning: object) -> None:
    assert parse_since(text, NOW) == meaning


@pytest.mark.parametrize("text", ["", "m", "-5m", "10 parsecs", "2026-13-01", "2026-11-15T13:00Z"])
def test_others_are_refused_with_the_forms_that_work(text: str) -> None:
    with pytest.raises(InvalidPosition, match="write 10m"):
        parse_since(text, NOW)


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
