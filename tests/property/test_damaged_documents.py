"""Offsets, tokens and checkpoints that were damaged: one line of ours, whatever is wrong."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.checkpoints import position_from_text, position_to_text
from shardline.core.offsets import Mark, Offset, Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition
from shardline.services.port import StreamDescription
from shardline.streams.ledger import Ledger, Place
from shardline.streams.tokens import from_token, to_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEEDS = 3_000
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
STREAM = StreamDescription("orders", "arn", NOON, True, 86400)
NUMBER = SequenceNumber("0042")
JUNK: list[Any] = [
    *(None, True, -1, 1.5, 10**30, "", "x", "latest", "9" * 300, [], [1, 2, 3], {}, {"after": "1"}),
    *({"at_time": "noon"}, "0001-01-01T00:00:00+00:00", {"after": 7}, {"after": "1", "sub": "x"}),
]


def offset() -> Any:
    ranges = {
        "a": Range(After(NUMBER), After(NUMBER, 3), NOON),
        "b": Range(TRIM_HORIZON, SHARD_END, NOON),
    }
    return Offset(AtTime(NOON), NOON, ranges, {"c": Mark(NOON, NOON)}).to_json()


def token() -> Any:
    places = {"a": Place(0, After(NUMBER, 3), NOON), "b": Place(1, TRIM_HORIZON, NOON)}
    return to_token(Ledger(TRIM_HORIZON, places, ["c"], {"c": NOON}), STREAM)


READERS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "offset": (offset, Offset.from_json),
    "token": (token, lambda value: from_token(value, STREAM)),
    "checkpoint": (
        lambda: json.loads(position_to_text(After(NUMBER, 3))),
        lambda value: position_from_text(json.dumps(value)),
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_document_is_read_or_refused_in_one_line(kind: str) -> None:
    write, read = READERS[kind]
    assert read(write())
    refused = 0
    for seed in range(SEEDS):
        value = damaged(random.Random(seed), write())
        try:
            read(value)
        except Exception as error:
            refused += 1
            if not isinstance(error, InvalidPosition) or "\n" in str(error):
                pytest.fail(f"seed {seed}: {type(error).__name__}: {error} for {value}")
    assert refused > SEEDS / 4


def damaged(draw: random.Random, value: Any) -> Any:
    """Return a value with one of its parts replaced, removed or added."""
    holders = list(_holders(value))
    if not holders or draw.random() < 0.02:
        return draw.choice(JUNK)
    holder, key = draw.choice(holders)
    match draw.randrange(4):
        case 0 | 1:
            holder[key] = draw.choice(JUNK)
        case 2:
            del holder[key]
        case 3 if isinstance(holder, dict):
            holder[draw.choice(["x", "", "after"])] = draw.choice(JUNK)
        case _:
            holder.insert(0, draw.choice(JUNK))
    return value


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _holders(value[key])
