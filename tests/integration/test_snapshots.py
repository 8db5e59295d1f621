"""A stream that starts with the table: the newest image of each key is the table, at any time."""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import shardline
from shardline.errors import InvalidPosition
from shardline.local import Service
from shardline.services.pace import UNPACED
from tests.integration.changing_table import seeds
from tests.integration.next_changes import next_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardline.tables.changes import Change

DEADLINE_SECONDS = 120
QUICK: dict[str, Any] = {"poll_seconds": 0.01, "list_seconds": 0.05, "quota": UNPACED}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(strict=True) as service:
        yield service


@pytest.fixture
def engine(service: Service) -> Iterator[shardline.Engine]:
    with shardline.Engine(endpoint_url=service.endpoint_url) as engine:
        yield engine


def thing_model() -> Any:
    class Thing(shardline.Model):
        class Meta:
            table = f"things-{uuid.uuid4()}"
            stream = {"new", "old"}  # noqa: RUF012

        id: bytes = shardline.key()
        place: int = shardline.key(range=True)
        value: int
        padding: str = ""

    return Thing


class Copy:
    """A copy of the table, kept as a consumer would: the newest image of each key."""

    def __init__(self) -> None:
        self.items: dict[tuple[bytes, int], Any] = {}
        self.types: set[str] = set()

    def apply(self, change: Change[Any]) -> None:
        key = change["key"]["id"], change["key"]["place"]
        self.types.add(change["meta"]["event"]["type"])
        if change["new"] is None:
            self.items.pop(key, None)
        else:
            self.items[key] = change["new"]


@pytest.mark.parametrize("seed", seeds(10))
def test_a_copy_equals_its_table_through_writes_a_split_and_restarts(
    service: Service, engine: shardline.Engine, seed: int
) -> None:
    rng = random.Random(seed)
    Thing = thing_model()  # noqa: N806
    engine.bind(Thing)
    table = Thing.Meta.table
    stored: dict[tuple[bytes, int], Any] = {}

    def write() -> None:
        key = bytes([rng.randrange(6)]), rng.randrange(4)
        if key in stored and rng.random() < 0.3:
            engine.delete(stored.pop(key))
        else:
            # Large enough that a segment has more than one page now and then.
            padding = "x" * rng.choice((0, 0, 0, 0, 0, 300_000))
            stored[key] = Thing(
                id=key[0], place=key[1], value=rng.random() * 1e6 // 1, padding=padding
            )
            engine.save(stored[key])

    def reshard() -> None:
        shards = [
            s.id
            for s in service.tables.find_stream(table, service.clock.now_ms()).listed(
                service.clock.now_ms()
            )
            if s.last is None
        ]
        act = service.tables.split if rng.random() < 0.7 else service.tables.roll
        act(table, rng.choice(shards))

    for _ in range(rng.randrange(20)):
        write()
    copy = Copy()
    stream = engine.stream(Thing, "snapshot", segments=rng.choice((1, 2, 3)), **QUICK)
    reshard_at = rng.randrange(30)
    for turn in range(30):
        if turn == reshard_at:
            reshard()
        if rng.random() < 0.7:
            write()
        if rng.random() < 0.1:
            token = json.loads(json.dumps(stream.token))
            stream.close()
            stream = engine.stream(Thing, token, **QUICK)
        change = next(stream)
        if change is not None:
            copy.apply(change)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while copy.items != stored:
        assert time.monotonic() < deadline, f"{len(copy.items)} of {len(stored)} items are there"
        change = next(stream)
        if change is not None:
            copy.apply(change)
    stream.close()


def test_items_come_once_as_snapshots_and_then_changes(engine: shardline.Engine) -> None:
    Thing = thing_model()  # noqa: N806
    engine.bind(Thing)
    engine.save(*(Thing(id=b"a", place=place, value=place) for place in range(5)))
    with engine.stream(Thing, "snapshot", **QUICK) as stream:
        first = next_changes(stream, 2)
        later = Thing(id=b"a", place=9, value=9)
        engine.save(later)
        saved = json.dumps(stream.token)
        rest = next_changes(stream, 4)
    kinds = [change["meta"]["event"]["type"] for change in first + rest]
    # The one that was written meanwhile comes as a change, and in the snapshot if that met it.
    assert kinds[:5] == ["snapshot"] * 5
    assert rest[-1]["new"] == later
    assert all(change["old"] is None for change in first + rest)
    assert all(change["meta"]["created_at"].tzinfo is not None for change in first + rest)
    with engine.stream(Thing, json.loads(saved), **QUICK) as stream:
        # The rest of the table, in which that item is now; then its change, as it was pinned.
        again = next_changes(stream, 5)
        assert "snapshot" not in stream.token
    assert [change["key"] for change in again[:4]] == [change["key"] for change in rest]
    assert [c["meta"]["event"]["type"] for c in again] == ["snapshot"] * 4 + ["insert"]
    damaged = json.loads(saved) | {"snapshot": {"segments": [{}]}}
    with pytest.raises(InvalidPosition, match="damaged"):
        engine.stream(Thing, damaged)


def test_a_snapshot_in_asynchronous_code(engine: shardline.Engine) -> None:
    Thing = thing_model()  # noqa: N806
    engine.bind(Thing)
    engine.save(*(Thing(id=b"a", place=place, value=place) for place in range(3)))

    async def read() -> list[int]:
        found = []
        async with engine.stream(Thing, "snapshot", **QUICK) as stream:
            async for change in stream:
                assert change["new"] is not None
                found.append(change["new"].value)
                if len(found) == 3:
                    engine.save(Thing(id=b"b", place=0, value=7))
                if len(found) == 4:
                    stream.close()
        return found

    found = asyncio.run(asyncio.wait_for(read(), DEADLINE_SECONDS))
    assert (sorted(found[:3]), found[3:]) == ([0, 1, 2], [7])
