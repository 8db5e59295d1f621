"""Tokens are exact at any moment, survive JSON, and are refused where they do not belong."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.errors import InvalidPosition
from shardline.services.pace import UNPACED
from shardline.streams.stream import Stream
from tests.twins.kinesis import KinesisTwin
from tests.unit.services.kpl import UserRecord, aggregate
from tests.unit.streams.test_merger import worked_example
from tests.unit.streams.world import World, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.port import Page

A_WHILE_SECONDS = 120.0
"""Long enough that the stamp of a record says on which side of "latest" it lies."""

EXAMPLE = ["R00", "R11", "R12", "R24", "R25", "R26", "R13"]


@pytest.mark.req("C-09", "C-10", "C-12", "O-16")
@pytest.mark.case("T-01")
@pytest.mark.parametrize("page_size", range(1, 11))
@pytest.mark.parametrize("taken", range(8))
def test_a_token_at_any_step_loses_and_repeats_nothing(page_size: int, taken: int) -> None:
    world = worked_example(seed=1)
    stream = world.stream("trim_horizon", page_size=page_size)
    assert names(stream, taken) == EXAMPLE[:taken]
    token = json.loads(json.dumps(stream.token))
    assert names(world.stream(token, page_size=page_size)) == EXAMPLE[taken:]
    assert names(world.stream(json.dumps(token))) == EXAMPLE[taken:]
    stream.move_to(stream.token)
    assert names(stream) == EXAMPLE[taken:]


@pytest.mark.case("T-01")
def test_a_closed_shard_with_buffered_records_is_not_drained_yet() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.put(name)
    child = world.roll(world.roots[0])
    world.put("d", child)
    stream = world.stream("trim_horizon")
    assert names(stream, 1) == ["a"]
    token = stream.token
    assert token["drained"] == []
    assert names(world.stream(token)) == ["b", "c", "d"]


@pytest.mark.req("C-12", "C-13")
@pytest.mark.case("T-02")
def test_a_token_right_after_a_move_to_a_time_means_that_time() -> None:
    world = World()
    for hours_ago in (5, 4, 3, 2, 1):
        world.put(f"R{hours_ago}", hours_ago=hours_ago)
    stream = world.stream("trim_horizon")
    assert names(stream, 1) == ["R5"]
    stream.move_to(world.clock.now() - timedelta(hours=3))
    token = stream.token
    assert names(world.stream(token)) == ["R3", "R2", "R1"]
    assert names(stream, 1) == ["R3"]
    assert names(world.stream(stream.token)) == ["R2", "R1"]


@pytest.mark.case("T-02", "T-04")
def test_once_the_time_is_found_lineage_rules_in_the_children_too() -> None:
    world = World()
    world.put("old", hours_ago=5)
    world.put("found", hours_ago=2)
    child = world.roll(world.roots[0])
    world.put("stamped-early", child, hours_ago=4)
    world.put("late", child, hours_ago=1)
    stream = world.stream(world.clock.now() - timedelta(hours=3))
    assert names(stream, 1) == ["found"]
    assert names(world.stream(stream.token)) == ["stamped-early", "late"]
    assert names(stream) == ["stamped-early", "late"]


@pytest.mark.case("T-08")
@pytest.mark.parametrize("end", ["trim_horizon", "latest"])
def test_moving_to_an_end_leaves_nothing_of_before_in_the_token(end: str) -> None:
    world = World()
    world.put("a")
    child = world.roll(world.roots[0])
    world.put("b", child)
    world.clock.advance(A_WHILE_SECONDS)
    stream = world.stream("trim_horizon")
    names(stream)
    stream.move_to(end)
    moved, opened = stream.token, world.stream(end).token
    for token in (moved, opened):  # the time moves on between the two
        for shard in token["shards"]:
            shard.pop("as_of", None)
    assert moved == opened
    assert names(stream) == (["a", "b"] if end == "trim_horizon" else [])


@pytest.mark.req("C-12", "O-22")
def test_a_token_of_latest_means_the_moment_of_moving_there() -> None:
    world = World(shards=2)
    first, second = world.roots
    world.put("before", first)
    world.clock.advance(A_WHILE_SECONDS)
    stream = world.stream("latest")
    idle = json.dumps(stream.token)
    world.put("after", first)
    world.put("after-too", second)
    buffered = json.dumps(world.stream(idle).token)
    for token in (idle, buffered, json.dumps(stream.token)):
        assert names(world.stream(token)) == ["after", "after-too"]
    world.clock.advance(1)
    assert names(stream) == ["after", "after-too"]


@pytest.mark.req("C-12", "O-22")
def test_a_token_of_latest_taken_after_a_write_does_not_skip_it() -> None:
    world = World()
    world.put("before")
    stream = world.stream("latest")
    world.put("after")
    world.put("later")
    token = stream.token
    assert names(world.stream(token)) == ["after", "later"]
    assert names(stream, 1) == ["after"]
    assert names(world.stream(stream.token)) == ["later"]


@pytest.mark.req("C-12", "O-22")
@pytest.mark.parametrize("passed_seconds", [A_WHILE_SECONDS, 0.0])
def test_a_token_of_latest_skips_nothing_though_every_page_since_was_empty(
    passed_seconds: float,
) -> None:
    """DynamoDB may give empty pages where there are records. What is doubtful comes again."""
    world = World()
    world.put("before")
    world.clock.advance(passed_seconds)
    stream = world.stream("latest")
    world.put("after")
    world.put("later")
    read = world.service.read

    def read_nothing_after_latest(iterator: str, max_records: int) -> Page:
        page = read(iterator, max_records)
        if not page.records.num_rows or "before" in str(page.records.slice(0, 1).to_pylist()):
            return page  # the second one is the search, from the beginning of the shard
        return replace(page, records=page.records.slice(0, 0), next_iterator=iterator)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.service, "read", read_nothing_after_latest)
        token = stream.token
    doubtful = [] if passed_seconds else ["before"]
    assert names(world.stream(token)) == [*doubtful, "after", "later"]


@pytest.mark.req("C-12", "O-22")
def test_a_record_that_is_written_while_a_token_of_latest_is_made_is_not_skipped() -> None:
    world = World()
    world.put("before")
    stream = world.stream("latest")

    def write_while_searching(_: str, page: Page) -> Page:
        if page.records.num_rows:  # only the search sees "before"
            world.service.change_page = lambda _, page: page
            world.put("meanwhile")
        return page

    world.service.change_page = write_while_searching
    assert names(world.stream(stream.token)) == ["meanwhile"]
    assert names(stream) == ["meanwhile"]


@pytest.mark.req("O-16", "C-10")
@pytest.mark.case("L-20")
def test_a_token_from_before_a_reshard_resumes_through_it() -> None:
    world = World()
    world.put("a")
    stream = world.stream("trim_horizon")
    assert names(stream) == ["a"]
    token = stream.token
    world.put("b")
    left, right = world.split(world.roots[0])
    world.put("c", left)
    grandchild = world.roll(right)
    world.put("d", grandchild)
    assert names(world.stream(token)) == ["b", "c", "d"]


def test_a_token_keeps_the_marks_that_lineage_needs_and_no_others() -> None:
    world = World()
    stream = world.stream("trim_horizon", list_seconds=1)
    shard = world.roots[0]
    for hour in range(0, 40, 4):
        world.put(f"R{hour}", shard)
        shard = world.roll(shard)
        world.clock.advance(4 * 3600)
        assert names(stream) == [f"R{hour}"]
    drained = stream.token["drained"]
    listed = {s.id for s in world.service.list_shards()}
    assert len(stream._merger.ledger.drained) == 10
    # Those listed, and the one parent that the oldest listed shard still names.
    assert len(drained) == len(listed - {shard}) + 1
    assert len(json.dumps(stream.token)) < 2_000


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda token: {**token, "version": 99}, "version 99"),
        (lambda token: {**token, "shardline": "offset"}, "offset of shardline, not a token"),
        (lambda _: {"active": [], "stream_arn": "…"}, "written by another tool"),
        (lambda token: {**token, "stream": "arn:other"}, "belongs to arn:other"),
        (lambda token: {**token, "shards": [{"id": "x"}]}, "damaged"),
        (lambda token: {**token, "shards": [{"id": "x", "position": "latest"}]}, "damaged"),
        (lambda token: {**token, "shards": [{**token["shards"][0], "id": 5}]}, "damaged"),
        (lambda token: {**token, "drained": "shardId-000000000000"}, "damaged"),
        (lambda token: {**token, "drained": {"shardId-000000000000": []}}, "damaged"),
        (lambda token: {**token, "drained": [None]}, "damaged"),
        (lambda token: {**token, "start": "shard_end"}, "damaged"),
        (lambda token: json.dumps(token)[:-9], "not JSON"),
    ],
)
def test_a_foreign_or_old_token_is_refused_in_one_line(
    damage: Callable[[dict[str, Any]], Any], says: str
) -> None:
    world = World()
    world.put("a")
    world.put("b")
    stream = world.stream("trim_horizon")
    assert names(stream, 1) == ["a"]
    with pytest.raises(InvalidPosition, match=says) as refused:
        stream.move_to(damage(stream.token))
    assert "\n" not in str(refused.value)
    assert names(stream) == ["b"]


@pytest.mark.case("L-18")
def test_a_token_of_a_stream_that_was_made_again_is_refused() -> None:
    world = World()
    token = world.stream("trim_horizon").token
    token["created_at"] = (world.clock.now() - timedelta(hours=1)).isoformat()
    with pytest.raises(InvalidPosition, match="made at"):
        world.stream(token)


@pytest.mark.req("C-12")
@pytest.mark.case("L-10")
def test_a_token_of_a_token_keeps_what_was_drained() -> None:
    world = World()
    world.put("before")
    stream = world.stream("latest")
    child = world.roll(world.roots[0])
    stream.move_to(stream.token)
    stream.move_to(stream.token)
    world.put("after", child)
    world.clock.advance(5)
    assert names(stream) == ["after"]


# --- aggregated records ----------------------------------------------------------------------


@pytest.mark.case("R-08")
@pytest.mark.parametrize("delivered", range(6))
def test_a_token_within_an_aggregated_record_goes_on_with_its_next_user_record(
    delivered: int,
) -> None:
    twin = KinesisTwin()
    twin.put("plain", b"0")
    twin.put("outer", aggregate([UserRecord(f"key-{n}", b"%d" % n) for n in range(1, 5)]))
    twin.put("plain", b"5")

    def stream(position: str | dict[str, Any]) -> Stream[Any]:
        seconds = twin.clock.now_ms() / 1000
        return Stream(twin, position, connections=1, quota=UNPACED, clock=lambda: seconds)

    first = stream("trim_horizon")
    taken: list[Any] = [next(first) for _ in range(delivered)]
    second = stream(first.token)
    taken += iter(lambda: next(second), None)
    assert [record.data for record in taken] == [b"%d" % n for n in range(6)]
    assert [record.sub_sequence_number for record in taken] == [None, 0, 1, 2, 3, None]
    assert [record.partition_key for record in taken[:3]] == ["plain", "key-1", "key-2"]
