"""Records as text: safe on a terminal, complete for programs."""

from __future__ import annotations

import json

import pytest

from shardline.cli.record_format import payload_text, record_to_json
from shardline.services.records import DynamoDBRecord, KinesisRecord


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
    plain = record_to_json(KinesisRecord("s", "1", 0, "key", b"text"))
    assert (plain["partition_key"], plain["data"]) == ("key", "text")
    assert record_to_json(KinesisRecord("s", "1", 0, "key", b"\xff"))["data_base64"] == "/w=="


def test_a_change_of_a_table_has_its_images() -> None:
    record = DynamoDBRecord(
        "s", "1", 0, "e", "INSERT", "1.1", '{"id":{"S":"a"}}', '{"id":{"S":"a"}}', None, 1, None
    )
    plain = record_to_json(record)
    assert plain["event_name"] == "INSERT"
    assert plain["new"] == {"id": {"S": "a"}}
    assert plain["old"] is None
