"""What is read from the descriptions of streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardline.services.wire.descriptions import decode_dynamodb_stream

STREAM: dict[str, Any] = {
    "TableName": "users",
    "StreamArn": "arn:aws:dynamodb:us-east-1:1:table/users/stream/2026",
    "CreationRequestDateTime": 1.0,
    "StreamStatus": "ENABLED",
    "Shards": [],
}
KEYS = [
    {"AttributeName": "at", "KeyType": "RANGE"},
    {"AttributeName": "id", "KeyType": "HASH"},
]


@pytest.mark.parametrize(("extra", "hash_key"), [({"KeySchema": KEYS}, "id"), ({}, None)])
def test_the_hash_key_of_a_table_is_known_where_the_service_tells_it(
    extra: dict[str, Any], hash_key: str | None
) -> None:
    body = json.dumps({"StreamDescription": STREAM | extra}).encode()
    description, _ = decode_dynamodb_stream(body)
    assert description.hash_key == hash_key
