"""Tokens and offsets name the same places, whichever is made from the other."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shardline.core import query_offsets
from shardline.core.offsets import Mark, Offset, Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import ShardlineError
from shardline.services.port import StreamDescription
from shardline.spark.driver.tokens import offset_of_token, token_of, token_of_offset
from shardline.streams.tokens import from_token

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
PLACE = After(SequenceNumber("42"))
OFFSET = Offset(
    TRIM_HORIZON,
    NOON,
    {
        "shard-1": Range(TRIM_HORIZON, SHARD_END, NOON),
        "shard-2": Range(PLACE, After(SequenceNumber("50")), NOON),
        "shard-3": Range(AtTime(NOON), AtTime(NOON)),
    },
    {"shard-0": Mark(None, NOON)},
    stream=ARN,
)


@dataclass
class Query:
    """What `token_of` looks at."""

    lastProgress: Any  # noqa: N815 - Spark's name


def query_at(*ends: object) -> Any:
    return Query(SimpleNamespace(sources=[SimpleNamespace(endOffset=end) for end in ends]))


@pytest.mark.req("P-05")
def test_an_offset_becomes_a_token_that_a_stream_and_a_query_take() -> None:
    token = json.loads(json.dumps(token_of_offset(OFFSET)))
    # The service tells finer times than an offset keeps.
    made_at = NOON.replace(microsecond=789)
    ledger = from_token(token, StreamDescription("orders", ARN, made_at, True, 86_400))
    places = {shard_id: place.position for shard_id, place in ledger.places.items()}
    assert places == {"shard-2": After(SequenceNumber("50")), "shard-3": AtTime(NOON)}
    assert ledger.drained == {"shard-0", "shard-1"}
    assert ledger.drained_as_of == {"shard-1": NOON}
    offset = offset_of_token(json.dumps(token))
    assert {k: item.upto for k, item in offset.ranges.items()} == places
    assert {k: mark.as_of for k, mark in offset.drained.items()} == {
        "shard-0": None,
        "shard-1": NOON,
    }
    assert (offset.stream, offset.created_at) == (ARN, NOON)
    assert token_of_offset(offset) == token


@pytest.mark.parametrize("text", [False, True])
def test_the_token_of_a_query_is_its_last_committed_offset(text: bool) -> None:
    end = OFFSET.to_json()
    rate = {"a": 1}
    query = query_at(rate, json.dumps(end) if text else end)
    assert token_of(query) == token_of_offset(OFFSET)


def test_of_several_streams_one_is_named() -> None:
    bills = replace(OFFSET, stream=ARN.replace("orders", "bills"))
    query = query_at(query_offsets.to_json({"orders": OFFSET, "bills": bills}))
    assert token_of(query, "bills") == token_of_offset(bills)
    assert token_of(query, ARN) == token_of_offset(OFFSET)
    with pytest.raises(ShardlineError, match="pass stream= with one of bills, orders"):
        token_of(query)
    with pytest.raises(ShardlineError, match="does not read letters, but bills, orders"):
        token_of(query, "letters")


@pytest.mark.parametrize(
    ("query", "line"),
    [
        (Query(None), "committed no batch yet"),
        (query_at(Offset(TRIM_HORIZON).to_json()), "committed no batch yet"),
        (query_at({"a": 1}), "committed no batch yet"),
        (query_at(OFFSET.to_json(), OFFSET.to_json()), "of one stream: .*one of orders, orders"),
        (query_at(Offset(TRIM_HORIZON, NOON).to_json()), "earlier release"),
    ],
)
def test_a_query_without_a_place_is_one_line(query: object, line: str) -> None:
    with pytest.raises(ShardlineError, match=line):
        token_of(cast("Any", query))
