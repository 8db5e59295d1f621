"""Records that expired before they were read: an error by default, never silence."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardline.core.positions import TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import ConfigurationError, GapError, ShardNotFound
from shardline.services.pace import UNPACED
from shardline.streams.stream import Stream
from tests.twins.kinesis import KinesisTwin
from tests.unit.streams.world import Watched, World, names

DAY = 24 * 3600


@pytest.mark.req("K-02")
@pytest.mark.case("T-09")
def test_expired_in_mid_stream_fails_with_shard_and_position_named() -> None:
    world = World()
    number = world.put("a")
    world.put("lost")
    stream = world.stream("trim_horizon", page_size=1)
    assert names(stream, 1) == ["a"]
    world.clock.advance(DAY + 1)
    world.put("kept")
    with pytest.raises(GapError, match=f"gap in {world.roots[0]} after {number}") as failed:
        next(stream)
    assert "\n" not in str(failed.value)
    assert stream.gaps == ()
    # Going on by accident would be a silent gap; and no call is made to find the same again.
    world.service.calls.clear()
    with pytest.raises(GapError):
        next(stream)
    assert not world.service.calls
    going_on = world.stream(stream.token, on_gap="go_on")
    assert names(going_on) == ["kept"]
    stream.move_to("trim_horizon")
    assert names(stream) == ["kept"]


@pytest.mark.case("X-11")
def test_a_stale_listing_hides_a_child_and_nothing_of_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the listing nor the answer for the shard knows it: both show its parent."""
    world = World()
    for number in range(3):
        world.put(f"parent {number}")
    for number, child in enumerate(world.split(world.roots[0])):
        world.put(f"child {number}", child)
    stream = world.stream("trim_horizon", page_size=1)
    found = names(stream, 1)
    with monkeypatch.context() as behind:
        listed = tuple(s for s in world.service.list_shards() if s.id == world.roots[0])
        behind.setattr(world.service, "list_shards", lambda: listed)
        behind.setattr(world.service, "has_shard", lambda shard_id: False, raising=False)
        world.clock.advance(3600)
        found += names(stream, 1)
    world.clock.advance(3600)
    found += names(stream)
    assert sorted(found) == ["child 0", "child 1", "parent 0", "parent 1", "parent 2"]
    assert stream.gaps == ()


@pytest.mark.case("X-11")
def test_a_young_shard_that_is_not_found_is_read_a_little_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.put("parent")
    child, _ = world.split(world.roots[0])
    world.put("child", child)
    stream = world.stream("trim_horizon")

    def open_shard(shard_id: str, position: Position) -> str:
        if shard_id == child:
            raise ShardNotFound("not known here yet")
        return Watched.open(world.service, shard_id, position)

    with monkeypatch.context() as behind:
        behind.setattr(world.service, "open", open_shard)
        assert names(stream) == ["parent"]
    world.clock.advance(2)
    assert names(stream) == ["child"]
    assert stream.gaps == ()


@pytest.mark.req("K-02")
@pytest.mark.case("T-09")
def test_going_on_records_the_gap_once() -> None:
    world = World()
    number = world.put("a")
    world.put("lost")
    stream = world.stream("trim_horizon", page_size=1, on_gap="go_on")
    assert names(stream, 1) == ["a"]
    world.clock.advance(DAY + 1)
    world.put("kept")
    assert names(stream) == ["kept"]
    world.clock.advance(1)
    assert next(stream) is None
    (gap,) = stream.gaps
    assert gap.shard_id == world.roots[0]
    assert gap.after == After(SequenceNumber(number))
    assert gap.since is not None
    assert names(world.stream(stream.token)) == []


@pytest.mark.case("T-09")
def test_a_gap_with_nothing_behind_it_is_recorded_once_too() -> None:
    world = World()
    world.put("a")
    world.put("lost")
    stream = world.stream("trim_horizon", page_size=1, on_gap="go_on")
    assert names(stream, 1) == ["a"]
    world.clock.advance(DAY + 1)
    for _ in range(3):
        assert next(stream) is None
        world.clock.advance(5)
    assert len(stream.gaps) == 1


@pytest.mark.case("T-09")
def test_a_quiet_shard_whose_last_record_expired_has_lost_nothing() -> None:
    world = World()
    world.put("a")
    stream = world.stream("trim_horizon")
    assert names(stream) == ["a"]
    world.clock.advance(DAY - 120)
    for _ in range(8):  # more than a minute of nothing but empty pages
        assert next(stream) is None
        world.clock.advance(10)
    token = stream.token
    world.clock.advance(3600)
    world.put("b")
    assert names(world.stream(token)) == ["b"]
    assert names(stream) == ["b"]
    assert stream.gaps == ()


@pytest.mark.case("L-17", "T-09")
def test_a_shard_that_was_trimmed_away_is_a_gap_and_its_children_go_on() -> None:
    world = World()
    world.put("a")
    stream = world.stream("trim_horizon", page_size=1)
    assert names(stream, 1) == ["a"]
    token = stream.token
    world.put("lost")
    child = world.roll(world.roots[0])
    world.clock.advance(DAY + 1)
    world.put("kept", child)
    with pytest.raises(GapError, match=world.roots[0]):
        next(world.stream(token))
    with pytest.raises(GapError, match=world.roots[0]):
        next(stream)
    going_on = world.stream(token, on_gap="go_on")
    assert names(going_on) == ["kept"]
    # The child may have lost records as well: it had a day in which nobody looked.
    assert [gap.shard_id for gap in going_on.gaps] == [world.roots[0], child]


@pytest.mark.case("L-17")
def test_a_child_that_expired_while_its_parent_was_read_is_a_gap() -> None:
    world = World()
    for name in ("a", "b"):
        world.put(name)
    child = world.roll(world.roots[0])
    world.put("lost", child)
    stream = world.stream("trim_horizon", on_gap="go_on")
    assert names(stream, 1) == ["a"]
    world.clock.advance(DAY + 1)
    world.put("kept", child)
    assert names(stream) == ["b", "kept"]  # "b" had been read in time
    (gap,) = stream.gaps
    assert (gap.shard_id, gap.after) == (child, TRIM_HORIZON)


def test_the_oldest_record_of_now_is_all_that_trim_horizon_asks_for() -> None:
    world = World()
    world.put("old")
    world.roll(world.roots[0])
    stream = world.stream("trim_horizon")
    world.clock.advance(DAY + 1)
    assert next(stream) is None
    assert stream.gaps == ()


@pytest.mark.req("K-02")
@pytest.mark.case("T-09")
def test_kinesis_which_says_nothing_about_a_trimmed_position() -> None:
    twin = KinesisTwin()
    twin.put("k", b"a")
    twin.put("k", b"lost")
    stream = _stream(twin)
    first = next(stream)
    assert first is not None
    assert first.data == b"a"
    twin.clock.advance(DAY + 1)
    twin.put("k", b"kept")
    with pytest.raises(GapError, match=first.sequence_number):
        next(stream)
    going_on = _stream(twin, stream.token, on_gap="go_on")
    kept = next(going_on)
    assert kept is not None
    assert kept.data == b"kept"
    assert len(going_on.gaps) == 1


@pytest.mark.req("K-02")
def test_kinesis_a_late_reader_whose_last_record_is_still_kept_has_lost_nothing() -> None:
    twin = KinesisTwin()
    twin.put("k", b"a")
    twin.clock.advance(600)
    twin.put("k", b"b")
    stream = _stream(twin)
    assert next(stream) is not None
    # A retention that the consumer does not know of: "b" is older than it believes is kept.
    stream._merger._buffers["shardId-000000000000"]._retention = timedelta(minutes=5)
    second = next(stream)
    assert second is not None
    assert second.data == b"b"


def test_only_two_policies_exist() -> None:
    with pytest.raises(ConfigurationError, match="go_on"):
        World().stream("latest", on_gap="ignore")


def _stream(twin: KinesisTwin, position: object = "trim_horizon", **options: object) -> Stream:  # type: ignore[type-arg]
    return Stream(
        twin,
        position,  # type: ignore[arg-type]
        page_size=1,
        connections=1,
        quota=UNPACED,
        clock=lambda: twin.clock.now_ms() / 1000,
        **options,  # type: ignore[arg-type]
    )
