"""Shards of DynamoDB Streams, which never say that nothing more is there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shardline.errors import GapError
from tests.unit.streams.world import World, names

if TYPE_CHECKING:
    from shardline.services.port import Page


class EmptyPages:
    """Gives so many empty pages before each page with records."""

    def __init__(self, world: World, count: int) -> None:
        self._count = self._left = count
        self._read = world.service.read
        self._clock = world.clock
        world.service.read = self.read  # type: ignore[method-assign]

    def read(self, iterator: str, max_records: int) -> Page:
        page = self._read(iterator, max_records)
        if not page.records.num_rows:
            return page
        self._left -= 1
        if self._left >= 0:
            self._clock.advance(0.2)
            return replace(page, records=page.records.slice(0, 0), next_iterator=iterator)
        self._left = self._count
        return page


@pytest.mark.case("X-01", "X-04")
def test_empty_pages_move_no_place_past_records_that_then_expire() -> None:
    world = World()
    world.put("a")
    stream = world.stream("trim_horizon", patience_seconds=1)
    assert names(stream, 1) == ["a"]
    world.clock.advance(timedelta(hours=2).total_seconds())
    world.put("lost")
    world.clock.advance(timedelta(hours=1).total_seconds())
    # Twenty empty pages within four seconds, then nobody reads until the record has expired.
    EmptyPages(world, 20)
    for _ in range(20):
        stream._merger._fetch_now(stream._merger._buffers.values())
    token = json.dumps(stream.token)
    world.clock.advance(timedelta(hours=23.5).total_seconds())
    with pytest.raises(GapError):
        names(world.stream(token))


@pytest.mark.case("X-24")
def test_a_shard_that_was_silent_for_long_has_no_gap() -> None:
    world = World()
    world.put("a")
    stream = world.stream("trim_horizon")
    assert names(stream) == ["a"]
    for _ in range(26):
        world.clock.advance(timedelta(hours=1).total_seconds())
        for _ in range(70):  # more than half a minute of asking
            assert next(stream) is None
            world.clock.advance(0.5)
    world.put("b")
    world.clock.advance(1)
    assert names(world.stream(stream.token)) == ["b"]
    assert names(stream) == ["b"]


@pytest.mark.case("X-04")
def test_a_kept_record_behind_an_empty_page_is_no_gap() -> None:
    world = World()
    world.put("a")
    world.put("b")
    stream = world.stream("trim_horizon", page_size=1)
    assert names(stream, 1) == ["a"]
    token = json.loads(json.dumps(stream.token))
    # Its time says that it may have expired, the service that it has not.
    token["shards"][0]["as_of"] = "2026-11-14T11:59:00+00:00"
    EmptyPages(world, 6)  # even: each read is followed by a question
    resumed = world.stream(token)
    found = []
    for _ in range(10):
        found += names(resumed)
        world.clock.advance(1)
    assert found == ["b"]
