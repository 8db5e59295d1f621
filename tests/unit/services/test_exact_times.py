"""Times as they are sent, with every botocore."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from shardline.services.access import Access, make_client
from shardline.services.exact_times import send_exact_times


class Sent(Exception):
    """Raised instead of sending."""


def sent_body(**start: Any) -> dict[str, Any]:
    client = make_client("kinesis", Access(endpoint_url="http://127.0.0.1:1"))
    send_exact_times(client)
    bodies: list[bytes] = []

    def catch(request: Any, **_: Any) -> None:
        bodies.append(request.body)
        raise Sent

    client.meta.events.register("before-send.kinesis", catch)
    with pytest.raises(Sent):
        client.get_shard_iterator(StreamName="orders", ShardId="shardId-0", **start)
    body: dict[str, Any] = json.loads(bodies[0])
    return body


def test_a_time_keeps_its_milliseconds() -> None:
    time = datetime(2026, 11, 16, 10, 0, 0, 351_000, tzinfo=UTC)
    assert sent_body(ShardIteratorType="AT_TIMESTAMP", Timestamp=time) == {
        "StreamName": "orders",
        "ShardId": "shardId-0",
        "ShardIteratorType": "AT_TIMESTAMP",
        "Timestamp": 1794823200.351,
    }


def test_a_request_without_a_time_is_left_as_it_is() -> None:
    assert "Timestamp" not in sent_body(ShardIteratorType="LATEST")
