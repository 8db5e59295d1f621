"""Where a stream can be moved, how it ends, and how it notices shards by itself."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from shardline.errors import (
    ConfigurationError,
    InvalidPosition,
    ServiceUnreachable,
    ShardlineError,
)
from shardline.streams.stream import Stream, stream
from tests.unit.streams.world import World, names


@pytest.mark.req("C-04", "C-05", "C-06", "C-14")
@pytest.mark.case("T-07")
@pytest.mark.parametrize("spelling", ["trim_horizon", "TRIM_HORIZON", "Trim_Horizon"])
def test_the_horizon_in_either_case_is_the_oldest_record(spelling: str) -> None:
    world = World()
    world.put("a")
    stream = world.stream("latest")
    assert next(stream) is None
    stream.move_to(spelling)
    assert names(stream) == ["a"]
    assert next(stream) is None


@pytest.mark.req("C-05", "O-22")
@pytest.mark.case("T-07")
@pytest.mark.parametrize("spelling", ["latest", "LATEST"])
def test_latest_in_either_case_is_what_comes_after(spelling: str) -> None:
    world = World()
    world.put("a")
    stream = world.stream(spelling)
    world.put("b")  # between the start and the first read
    world.clock.advance(1)
    assert names(stream) == ["b"]


@pytest.mark.req("C-11", "C-13")
def test_a_time_is_the_first_record_at_or_after_it_back_or_forward() -> None:
    world = World()
    for hours_ago in (5, 4, 3, 2, 1):
        world.put(f"R{hours_ago}", hours_ago=hours_ago)
    stream = world.stream("trim_horizon")
    now = world.clock.now()
    stream.move_to(now - timedelta(hours=2))
    assert names(stream) == ["R2", "R1"]
    stream.move_to((now - timedelta(hours=3, minutes=30)).astimezone(timezone(timedelta(hours=9))))
    assert names(stream) == ["R3", "R2", "R1"]


@pytest.mark.req("C-11", "C-13")
@pytest.mark.parametrize(
    ("position", "says"),
    [
        (datetime(2026, 11, 15), "has no time zone"),
        ("earliest", "not a position: 'earliest'"),
        (None, "not a position: None"),
        (3.5, "not a position"),
        ({}, "lacks the field 'shardline'"),
    ],
)
def test_anything_else_is_a_clear_error_and_the_stream_stays(position: Any, says: str) -> None:
    world = World()
    world.put("a")
    world.put("b")
    stream = world.stream("trim_horizon")
    assert names(stream, 1) == ["a"]
    with pytest.raises(InvalidPosition, match=says) as refused:
        stream.move_to(position)
    assert "\n" not in str(refused.value)
    assert names(stream) == ["b"]
    with pytest.raises(InvalidPosition, match=says):
        world.stream(position)


def test_a_move_that_the_service_refuses_leaves_the_stream_where_it_was() -> None:
    world = World()
    world.put("a")
    world.put("b")
    stream = world.stream("trim_horizon")
    assert names(stream, 1) == ["a"]
    token = stream.token
    open_shard = world.service.open

    def refuse(*_: object) -> str:
        raise ServiceUnreachable("no answer")

    world.service.open = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(ServiceUnreachable):
        stream.move_to("latest")
    world.service.open = open_shard  # type: ignore[method-assign]
    assert stream.token == token
    assert names(stream) == ["b"]


@pytest.mark.case("R-12", "R-11")
def test_an_error_in_one_shard_drops_nothing_of_another() -> None:
    world = World(shards=2)
    first, second = world.roots
    world.put("a", first)
    world.put("b", second)
    stream = world.stream("trim_horizon")
    read = world.service.read
    failing = [True]

    def fail_once(iterator: str, max_records: int) -> Any:
        if world.service._shard_of[iterator] == second and failing:
            failing.clear()
            raise ServiceUnreachable("no answer")
        return read(iterator, max_records)

    world.service.read = fail_once  # type: ignore[method-assign]
    with pytest.raises(ServiceUnreachable):
        next(stream)
    assert names(stream) == ["a", "b"]


@pytest.mark.req("O-14", "O-15", "O-21", "C-24")
@pytest.mark.case("L-21")
def test_new_shards_are_noticed_by_themselves_and_read_from_their_beginning() -> None:
    world = World()
    stream = world.stream("latest")
    assert next(stream) is None
    world.put("a")
    left, right = world.split(world.roots[0])
    world.put("b", left)
    child = world.roll(right)
    world.put("c", child)
    world.clock.advance(1)
    assert names(stream) == ["a", "b", "c"]


@pytest.mark.req("O-14")
@pytest.mark.case("L-21")
def test_children_that_are_not_listed_yet_are_asked_for_until_they_are() -> None:
    world = World()
    world.put("a")
    stream = world.stream("trim_horizon")
    before = world.service.list_shards()
    child = world.roll(world.roots[0])
    world.put("b", child)
    listing = world.service._service.list_shards
    world.service._service.list_shards = lambda: before  # type: ignore[method-assign]
    assert names(stream) == ["a"]
    for _ in range(3):
        world.clock.advance(1)
        assert next(stream) is None
    world.service._service.list_shards = listing  # type: ignore[method-assign]
    world.clock.advance(1)
    assert names(stream) == ["b"]


@pytest.mark.req("O-14")
def test_a_quiet_stream_lists_its_shards_every_few_seconds_and_no_more_often() -> None:
    world = World()
    stream = world.stream("trim_horizon", list_seconds=5)
    assert next(stream) is None
    world.service.calls.clear()
    world.service.empty_answer_seconds = 0
    for _ in range(1_000):
        assert next(stream) is None
        world.clock.advance(0.06)
    assert 10 <= world.service.calls["list_shards"] <= 12  # a minute
    assert world.service.calls["read"] <= 4 * 60 + 5  # four a second, of the five allowed


@pytest.mark.req("O-17", "O-18", "O-19", "O-20", "O-21", "O-22")
def test_an_ephemeral_consumer_drains_what_it_knew_and_skips_what_it_never_knew() -> None:
    world = World()
    world.put("missed")
    known = world.roll(world.roots[0])  # the root is closed before the consumer comes
    stream = world.stream("latest")
    world.put("pinned", known)
    left, right = world.split(known)
    world.put("left", left)
    world.put("right", right)
    world.clock.advance(1)
    given = names(stream)
    assert given[0] == "pinned"
    assert sorted(given[1:]) == ["left", "right"]
    again = world.stream("latest")
    world.put("new", left)
    world.clock.advance(1)
    assert names(again) == ["new"]


@pytest.mark.req("C-06", "C-01")
def test_a_loop_gives_records_only_and_ends_with_the_stream() -> None:
    world = World()
    world.put("a")
    world.put("b")
    given = []
    with Stream[Any](world.service, "trim_horizon", poll_seconds=0.001) as stream:
        assert names(stream, 1) == ["a"]
        timer = threading.Timer(0.01, lambda: (world.put("c"), None)[1])
        timer.start()
        for record in stream:
            given.append(record.keys["id"]["S"])
            if given[-1] == "c":
                timer.join()
                stream.close()
    assert given == ["b", "c"]
    with pytest.raises(ShardlineError, match="was closed"):
        next(stream)
    world.put("d")
    assert names(world.stream(stream.token)) == ["d"]


@pytest.mark.req("O-11")
def test_a_shard_that_was_read_to_its_end_is_not_read_again() -> None:
    world = World()
    (parent,) = world.roots
    world.put("a")
    children = world.split(parent)
    for child in children:
        world.put(f"in {child}", shard=child)
    first = world.stream("trim_horizon")
    assert len(names(first)) == 3
    world.service.opened.clear()
    world.put("later", shard=children[0])
    assert names(world.stream(first.token)) == ["later"]
    assert world.service.opened
    assert set(world.service.opened) <= set(children)


def test_a_loop_that_waits_is_ended_from_another_thread() -> None:
    world = World()
    stream = Stream[Any](world.service, "latest", poll_seconds=60)
    threading.Timer(0.01, stream.close).start()
    assert list(stream) == []


@pytest.mark.parametrize(
    "options", [{"on_gap": "ignore"}, {"page_size": 0}, {"connections": 0}], ids=str
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="pass"):
        Stream(World().service, "latest", **options)


def test_an_address_that_is_none_is_refused_with_the_right_form() -> None:
    with pytest.raises(ConfigurationError, match="kinesis://orders or dynamodb://orders"):
        stream("orders", "latest")


def test_a_record_that_is_put_back_comes_again_and_the_token_is_before_it() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.put(name)
    stream = world.stream("trim_horizon")
    with pytest.raises(ShardlineError, match="nothing to put back"):
        stream.put_back()
    assert names(stream, 2) == ["a", "b"]
    stream.put_back()
    token = stream.token
    assert names(world.stream(token)) == ["b", "c"]
    assert names(stream) == ["b", "c"]


def test_an_arrow_time_is_a_position() -> None:
    world = World()
    world.put("old", hours_ago=3)
    world.put("young", hours_ago=1)

    class Arrow:  # as arrow.Arrow, which is no datetime but holds one
        datetime = world.clock.now() - timedelta(hours=2)

    stream = world.stream("trim_horizon")
    stream.move_to(Arrow())  # type: ignore[arg-type]
    assert names(stream) == ["young"]


def test_a_stream_shows_itself_to_people_and_notebooks() -> None:
    world = World(shards=2)
    world.put("a", world.roots[0])
    stream = world.stream("trim_horizon")
    assert names(stream) == ["a"]
    [left, _] = world.split(world.roots[0])
    world.clock.advance(60)
    assert next(stream) is None
    world.clock.advance(60)
    assert next(stream) is None
    assert repr(stream) == "<Stream users: 3 shards>"
    html = stream._repr_html_()
    assert html.startswith("<table><caption>Stream users: 3 shards</caption>")
    assert html.count("<tr>") == 5  # the heading, two roots, two children
    assert f"<td>{left}</td><td>{world.roots[0]}</td><td>readable</td>" in html
    stream.close()
    assert repr(stream) == "<Stream users: 3 shards, closed>"
