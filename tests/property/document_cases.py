"""Stored documents and rows, whole and damaged, and how each is read back.

A case is made from a seed. The tests run some thousands; `make fuzz` runs more.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from shardline.core.checkpoints import position_from_text, position_to_text
from shardline.core.leasing.parked_keys import ParkedKey
from shardline.core.leasing.rows import Header, Heartbeat, LeaseRow
from shardline.core.leasing.runs import Run
from shardline.core.offsets import Mark, Offset, Range
from shardline.core.positions import SHARD_END, TRIM_HORIZON, After, AtTime
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition
from shardline.leases.dynamodb_items import item_of
from shardline.leases.sql_schema import columns_of
from shardline.leases.stored_rows import row_of
from shardline.services.port import StreamDescription
from shardline.streams.ledger import Ledger, Place
from shardline.streams.tokens import from_token, to_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
STREAM = StreamDescription("orders", "arn", NOON, True, 86400)
NUMBER = SequenceNumber("0042")
ROW = LeaseRow(
    *("app", "orders", "a", NOON, ("p", "q"), "ada", 3, 2),
    checkpoint=After(NUMBER, 3),
    as_of=NOON,
)
BEAT = Heartbeat("app", "orders", "ada", 3, 2, asks=("b",))
HEADER = Header("app", "orders", NOON, AtTime(NOON))
RUN = Run("app", "run", NOON, 2)
PARKED = ParkedKey("app", "orders", "a", "key", "letter", 3)
JUNK: list[Any] = [
    *(None, True, -1, 1.5, 10**30, "", "x", "latest", "9" * 300, [], [1, 2, 3], {}, {"after": "1"}),
    *(Decimal("NaN"), Decimal("1.5"), "2026-11-15T12:00:00", "[1]"),
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
        lambda value: position_from_text(json.dumps(value, default=str)),
    ),
    **{
        f"{type(row).__name__} in {store}": (partial(write, row), partial(row_of, type(row)))
        for row in (ROW, BEAT, HEADER, RUN, PARKED)
        for store, write in (("DynamoDB", item_of), ("SQL", columns_of))
    },
}


def check(seed: int) -> None:
    """Damage one of each kind; each is read, or refused in one line of ours."""
    for kind in READERS:
        outcome(kind, seed)


def outcome(kind: str, seed: int) -> bool:
    """Damage one of this kind; return true if it was read all the same."""
    write, read = READERS[kind]
    value = damaged(random.Random(seed), write())
    try:
        read(value)
    except InvalidPosition as error:
        if "\n" in str(error):
            raise AssertionError(f"{kind}: several lines: {error}") from error
        return False
    return True


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
