"""A heartbeat keeps the place, and in a tight loop it is nearly free."""

from __future__ import annotations

from typing import Any

import pytest

from shardline.services.pace import UNPACED
from shardline.streams.stream import Stream
from tests.twins.kinesis import KinesisTwin
from tests.unit.streams.world import World, names

BEATS = 1_000_000
HOURS = 24


@pytest.mark.req("C-15", "C-16")
@pytest.mark.case("T-03")
def test_a_million_heartbeats_on_pinned_shards_make_one_call_each_in_four_hours() -> None:
    world = World(shards=3)
    for shard in world.roots:
        world.put(f"in-{shard}", shard)
    stream = world.stream("trim_horizon")
    assert len(names(stream)) == 3
    world.service.calls.clear()
    seconds = started = world.seconds()
    stream._merger._clock = lambda: seconds
    beat_seconds = HOURS * 3600 / BEATS
    for beat in range(BEATS):
        seconds = started + beat * beat_seconds
        stream.heartbeat()
    assert world.service.calls.total() <= 3 * HOURS / 4
    assert world.service.calls["read"] > 0


@pytest.mark.req("C-15", "C-16")
@pytest.mark.case("T-03")
def test_where_only_an_iterator_holds_the_place_it_is_one_call_in_twelve_minutes() -> None:
    world = World(shards=2)
    world.put("before", world.roots[0])
    stream = world.stream("latest")
    world.service.calls.clear()
    for _ in range(HOURS * 60 * 4):
        world.clock.advance(15)
        stream.heartbeat()
    assert world.service.calls["read"] == 2 * HOURS * 60 / 12
    assert world.service.calls["open"] == 0  # no iterator expired
    world.put("after", world.roots[0])
    world.clock.advance(1)
    assert names(stream) == ["after"]


@pytest.mark.req("C-15")
def test_what_a_heartbeat_reads_is_kept_for_next() -> None:
    world = World()
    stream = world.stream("latest")
    world.put("a")
    world.clock.advance(12 * 60)
    stream.heartbeat()
    token = stream.token
    world.clock.advance(3600)
    assert names(stream) == ["a"]
    assert names(world.stream(token)) == ["a"]


@pytest.mark.req("C-15", "C-16")
def test_kinesis_iterators_live_five_minutes_so_its_shards_are_asked_more_often() -> None:
    twin = KinesisTwin(shards=2)
    twin.put("k", b"before")
    clock = twin.clock
    stream = Stream[Any](
        twin, "latest", connections=1, quota=UNPACED, clock=lambda: clock.now_ms() / 1000
    )
    for _ in range(60 * 2):
        clock.advance(30)
        stream.heartbeat()
    twin.put("k", b"after")
    clock.advance(1)
    record = next(stream)
    assert record is not None
    assert record.data == b"after"
    assert next(stream) is None
