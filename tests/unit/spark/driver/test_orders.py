"""What a planner asks for, carried out on a stream."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.gaps import Evidence
from shardline.core.planning.events import (
    AskTime,
    Bookmarked,
    Check,
    Checked,
    Describe,
    Described,
    Event,
    Instruction,
    List,
    Listed,
    Pin,
    Pinned,
    Refused,
    Told,
)
from shardline.core.planning.queries import Answer, Kind, Query
from shardline.core.positions import TRIM_HORIZON, After, AtTime
from shardline.services.steps import run
from shardline.spark.driver.orders import Orders
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from shardline.core.shards import SequenceNumber

SHARD = "shardId-000000000000"
HOUR = 3600.0


class Stream:
    """A stream in virtual time, and the orders of one planner on it."""

    def __init__(self) -> None:
        self.twin = KinesisTwin(1)
        self.orders = Orders(self.twin, lambda: self.twin.clock.now_ms() / 1000)

    def put(self, count: int = 1) -> list[SequenceNumber]:
        numbers = []
        for _ in range(count):
            self.twin.clock.advance(1)
            numbers.append(self.twin.put("key", b"data").sequence)
        return numbers

    def do(self, instruction: Instruction) -> Event:
        return run(self.orders.carry_out(instruction), sleep=self.twin.clock.advance)

    def ask(self, kind: Kind, max_records: int = 1, **named: Any) -> Answer:
        answer = self.do(Query(SHARD, kind, named.pop("after", TRIM_HORIZON), max_records, **named))
        assert isinstance(answer, Answer)
        return answer


def test_listing_description_and_time() -> None:
    stream = Stream()
    assert stream.do(List()) == Listed(stream.twin.list_shards())
    described = stream.do(Describe())
    assert isinstance(described, Described)
    assert described.retention == timedelta(hours=24)
    assert stream.do(AskTime(SHARD)) == Told(stream.twin.clock.now())


def test_a_refusal_for_its_rate_is_waited_out() -> None:
    stream = Stream()
    stream.twin.account.faults.add("throttle", operation="ListShards", times=3)
    began = stream.twin.clock.now()
    assert isinstance(stream.do(List()), Listed)
    assert stream.twin.clock.now() > began


def test_reading_on_names_the_first_and_the_last_record() -> None:
    stream = Stream()
    numbers = stream.put(5)
    answer = stream.ask(Kind.FORWARD, 3)
    assert (answer.rows, answer.first, answer.last) == (
        3,
        After(numbers[0], -1),
        After(numbers[2]),
    )
    assert answer.records.num_rows == 3
    rest = stream.ask(Kind.FORWARD, 10, after=After(numbers[2]))
    assert (rest.rows, rest.behind_ms, rest.ended) == (2, 0, False)
    stream.twin.split(SHARD)
    assert stream.ask(Kind.FORWARD, 10, after=After(numbers[4])).ended


@pytest.mark.case("X-22")
def test_what_arrived_later_than_asked_for_does_not_count() -> None:
    stream = Stream()
    numbers = stream.put(3)
    until = stream.twin.clock.now()
    stream.put(3)
    answer = stream.ask(Kind.FORWARD, 10, until=until)
    assert (answer.rows, answer.last, answer.beyond) == (3, After(numbers[2]), True)


def test_what_is_too_big_is_left_out_but_for_what_must_come() -> None:
    stream = Stream()
    stream.put(3)
    one = stream.ask(Kind.FORWARD, 1).size_bytes
    answer = stream.ask(Kind.FORWARD, 10, max_bytes=2 * one)
    assert (answer.rows, answer.cut) == (2, True)
    answer = stream.ask(Kind.FORWARD, 10, max_bytes=0, at_least=1)
    assert (answer.rows, answer.cut) == (1, True)


def test_one_record_at_a_time_and_none_after_the_last() -> None:
    stream = Stream()
    stream.put(2)
    at = stream.twin.clock.now()
    (third,) = stream.put()
    stream.twin.clock.advance(5)
    just_after = at + timedelta(milliseconds=1)
    assert stream.ask(Kind.TIME, at=just_after).last == After(third)
    later = at + timedelta(seconds=3)
    nothing = stream.ask(Kind.TIME, at=later)
    assert (nothing.rows, nothing.behind_ms) == (0, 0)


def test_a_bookmark_finds_what_came_after_it_and_expires() -> None:
    stream = Stream()
    stream.put(2)
    assert stream.do(Query(SHARD, Kind.SET_BOOKMARK, TRIM_HORIZON)) == Bookmarked(SHARD)
    assert stream.ask(Kind.BOOKMARK).rows == 0
    (third,) = stream.put()
    assert stream.ask(Kind.BOOKMARK).last == After(third)
    stream.do(Query(SHARD, Kind.SET_BOOKMARK, TRIM_HORIZON))
    stream.put()
    stream.twin.clock.advance(HOUR)
    assert stream.ask(Kind.BOOKMARK).expired


def test_latest_is_pinned_after_the_newest_record_or_at_a_time() -> None:
    stream = Stream()
    pinned = stream.do(Pin(SHARD))
    assert isinstance(pinned, Pinned)
    assert pinned.place.position == AtTime(stream.twin.clock.now())
    (number,) = stream.put()
    pinned = stream.do(Pin(SHARD))
    assert isinstance(pinned, Pinned)
    assert pinned.place.position == After(number)


@pytest.mark.req("K-02")
def test_a_place_is_kept_trimmed_or_gone() -> None:
    stream = Stream()
    (number,) = stream.put()

    def check(position: After | None) -> Evidence:
        checked = stream.do(Check(SHARD, position))
        assert isinstance(checked, Checked)
        return checked.evidence

    assert check(After(number)) is Evidence.KEPT
    assert check(None) is Evidence.KEPT
    stream.twin.clock.advance(25 * HOUR)
    stream.put()
    assert check(After(number)) is Evidence.TRIMMED
    stream.twin.split(SHARD)
    stream.twin.clock.advance(25 * HOUR)
    assert check(None) is Evidence.GONE
    refused = stream.do(Query(SHARD, Kind.FORWARD, TRIM_HORIZON))
    assert isinstance(refused, Refused)
    assert refused.evidence is Evidence.GONE
