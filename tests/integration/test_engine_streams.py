"""Typed changes through splits and rolls: the engine's stream over the embedded service."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import shardline
from shardline.errors import InvalidPosition
from shardline.local import Clock, Service
from shardline.tables.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardline.local.faults import FaultKind
    from shardline.tables.changes import Change, ChangeStream

START = datetime(2026, 11, 15, 12, tzinfo=UTC)
DEADLINE_SECONDS = 120


class Counter(shardline.Model):
    class Meta:
        table = "counters"
        stream = {"include": ["new", "old"]}  # noqa: RUF012

    id: str = shardline.key()
    count: int


class World:
    """A table with a stream, written through the embedded service's control API."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.root = service.tables.create_table("counters").shards[0]
        self.engine = shardline.Engine(endpoint_url=service.endpoint_url)
        self.shape = Shape(Counter, "counters")
        self._streams = ExitStack()

    def put(self, key: str, count: int) -> None:
        new = self.shape.write(Counter(id=key, count=count))
        old = self.shape.write(Counter(id=key, count=count - 1)) if count > 1 else None
        self.service.tables.put_change("counters", {"id": {"S": key}}, old, new)

    def stream(self, position: Any, **options: Any) -> ChangeStream[Counter]:
        options = {"list_seconds": 0.05, "poll_seconds": 0.01} | options
        return self._streams.enter_context(self.engine.stream(Counter, position, **options))

    def close(self) -> None:
        self._streams.close()
        self.engine.close()


@pytest.fixture
def world() -> Iterator[World]:
    with (
        Service(strict=True, limits=False, status_delay_seconds=0, clock=Clock(START)) as service,
        closing(World(service)) as world,
    ):
        yield world


def take(stream: ChangeStream[Counter], count: int) -> list[Change[Counter]]:
    changes: list[Change[Counter]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(changes) < count:
        assert time.monotonic() < deadline, f"only {len(changes)} of {count} changes came"
        if (change := next(stream)) is not None:
            changes.append(change)
    return changes


@pytest.mark.req("C-09", "C-10", "C-12", "C-19")
def test_typed_changes_stay_in_order_through_splits_rolls_tokens_and_moves(world: World) -> None:
    keys = [f"key-{number}" for number in range(8)]
    stream = world.stream("trim_horizon", page_size=3)
    seen: dict[str, list[tuple[int | None, int | None]]] = {key: [] for key in keys}
    open_shards = [world.root]
    for count in range(1, 7):
        for key in keys:
            world.put(key, count)
        reshard = world.service.tables.split if count % 2 else world.service.tables.roll
        open_shards += reshard("counters", open_shards.pop(0)).children
        for change in take(stream, len(keys)):
            old, new = change["old"], change["new"]
            assert new is not None
            assert change["key"] == {"id": new.id}
            seen[new.id].append((old.count if old else None, new.count))
        token = json.loads(json.dumps(stream.token))
        if count % 2:
            stream.move_to(token)
        else:
            stream.close()
            stream = world.stream(token, page_size=3)
        stream.heartbeat()
    assert next(stream) is None
    steps = [(None, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert seen == dict.fromkeys(keys, steps)
    assert stream.gaps == ()


@pytest.mark.req("C-11", "C-13", "C-14")
def test_a_stream_of_changes_moves_as_a_plain_one_does(world: World) -> None:
    for count in (1, 2, 3):
        world.put("a", count)
        world.service.clock.advance(3600)
    stream = world.stream("latest")
    assert next(stream) is None
    stream.move_to("TRIM_HORIZON")
    assert take(stream, 3)[0]["new"] == Counter(id="a", count=1)
    stream.move_to(START + timedelta(hours=1))
    changes = take(stream, 2)
    assert [change["meta"]["created_at"] for change in changes] == [
        START + timedelta(hours=hours) for hours in (1, 2)
    ]
    with pytest.raises(InvalidPosition):
        stream.move_to("somewhere")
    world.put("a", 4)
    (change,) = take(stream, 1)
    assert change["new"] == Counter(id="a", count=4), "it stayed where it was"


def test_a_for_loop_waits_for_changes_until_the_stream_is_closed(world: World) -> None:
    got: list[int] = []
    third = threading.Event()
    stream = world.stream("trim_horizon")

    def read() -> None:
        for change in stream:
            assert change["new"] is not None
            got.append(change["new"].count)
            if len(got) == 3:
                third.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for count in (1, 2, 3):
        world.put("a", count)
    assert third.wait(DEADLINE_SECONDS)
    stream.close()
    reader.join(DEADLINE_SECONDS)
    assert not reader.is_alive()
    assert got == [1, 2, 3]


@pytest.mark.parametrize("kind", ["throttle", "internal-failure"])
def test_a_closed_stream_stops_trying_again(world: World, kind: FaultKind) -> None:
    others = readers()
    stream = world.stream("trim_horizon", patience_seconds=0.1)
    world.service.faults.add(kind, "GetRecords", times=None)
    assert next(stream) is None
    assert readers() - others, "the read is over, though every try fails"
    stream.close()
    wait_until(lambda: not readers() - others, "nobody reads any more")


def readers() -> set[threading.Thread]:
    """Return the threads that read a stream, of any test that this process has run."""
    return {t for t in threading.enumerate() if t.name.startswith("shardline-stream")}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)
