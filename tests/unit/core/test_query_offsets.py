"""The offset of a query holds that of each of its streams, and names what does not fit."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from shardline.core.offsets import Offset
from shardline.core.positions import LATEST, TRIM_HORIZON
from shardline.core.query_offsets import from_json, is_ours, stream_name, to_json
from shardline.errors import InvalidPosition

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FIRST = Offset(LATEST)


def offset(name: str) -> Offset:
    return Offset(
        TRIM_HORIZON, NOON, stream=f"arn:aws:kinesis:us-east-1:000000000000:stream/{name}"
    )


def test_one_stream_is_written_as_ever() -> None:
    assert to_json({"a": offset("a")}) == offset("a").to_json()
    assert from_json(offset("a").to_json(), ["a"], FIRST) == {"a": offset("a")}
    arn = "arn:aws:kinesis:us-east-1:000000000000:stream/a"
    assert from_json(offset("a").to_json(), [arn], FIRST) == {arn: offset("a")}


def test_several_streams_come_back_by_name_in_sorted_text() -> None:
    written = to_json({"b": offset("b"), "a": offset("a")})
    text = json.dumps(written)
    assert text == json.dumps(json.loads(text), sort_keys=True)
    assert from_json(json.loads(text), ["a", "b"], FIRST) == {"a": offset("a"), "b": offset("b")}
    assert is_ours(written)
    assert not is_ours({"a": 1})


def test_a_stream_that_is_new_begins_and_one_that_is_left_out_is_named() -> None:
    both = to_json({"a": offset("a"), "b": offset("b")})
    assert from_json(both, ["a", "b", "c"], FIRST)["c"] == FIRST
    assert from_json(offset("a").to_json(), ["a", "b"], FIRST) == {"a": offset("a"), "b": FIRST}
    for value, names in [(both, ["a"]), (both, ["a", "c"]), (offset("b").to_json(), ["a", "c"])]:
        with pytest.raises(InvalidPosition, match="is of b too"):
            from_json(value, names, FIRST)


@pytest.mark.parametrize("value", [{"shardline": "offsets", "version": 1}, {}, [], "x"])
def test_what_is_no_offset_of_ours_is_refused(value: object) -> None:
    with pytest.raises(InvalidPosition):
        from_json(value, ["a", "b"], FIRST)


def test_the_name_of_a_stream_is_in_its_arn() -> None:
    table = Offset(LATEST, stream="arn:aws:dynamodb:r:1:table/users/stream/2026-11-15T12:00:00.000")
    assert stream_name(table) == "users"
    assert stream_name(offset("orders")) == "orders"
