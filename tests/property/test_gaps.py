"""The rule for gaps through random lives of a shard and its child: sound, and no false alarm."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.core.gaps import (
    MARGIN,
    SKEW,
    START_GRACE,
    Evidence,
    Verdict,
    as_of_after_page,
    first_as_of,
    inherited,
    judge,
    later_as_of,
)
from shardline.core.positions import TRIM_HORIZON, After, Position
from shardline.core.shards import SequenceNumber

DAY = timedelta(hours=24)
START = datetime(2030, 1, 1, tzinfo=UTC)

events = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 20 * 60)),  # minutes
        st.tuples(st.just("put"), st.integers(1, 3)),
        st.tuples(st.just("read"), st.integers(0, 4)),
        st.tuples(st.just("split"), st.just(0)),
        st.tuples(st.just("start"), st.just(0)),
    ),
    max_size=60,
)


@dataclass
class Life:
    """A shard, then its child, with records that expire; and a reader that comes and goes."""

    now: datetime = START
    records: list[tuple[int, datetime]] = field(default_factory=list)
    """Number and arrival, oldest first: those of the shard, then those of its child."""
    numbers: int = 0
    first_of_child: int | None = None
    position: Position | None = None
    as_of: datetime = START
    in_child: bool = False
    delivered: int = 0
    """The number of the last record that was delivered, or that was not owed."""

    def put(self, count: int) -> None:
        for _ in range(count):
            self.numbers += 1
            self.records.append((self.numbers, self.now))

    def split(self) -> None:
        if self.first_of_child is None:
            self.first_of_child = self.numbers + 1

    def start(self) -> None:
        if self.position is None:
            self.position = TRIM_HORIZON
            self.as_of = first_as_of(TRIM_HORIZON, known_at=self.now, retention=DAY)
            owed_from = self.now + START_GRACE - DAY
            self.delivered = max((n for n, at in self.records if at <= owed_from), default=0)

    def kept(self) -> list[tuple[int, datetime]]:
        return [(n, at) for n, at in self.records if at + DAY > self.now]

    def expired_unread(self) -> int:
        return sum(n > self.delivered and at + DAY <= self.now for n, at in self.records)

    def read(self, count: int) -> Verdict | None:
        """Judge, then deliver some records; return the verdict."""
        if self.position is None:
            return None
        verdict = judge(self.position, self.as_of, now=self.now, retention=DAY)
        if verdict is Verdict.ASK:
            assert isinstance(self.position, After)
            there = any(n == int(self.position.sequence) for n, _ in self.kept())
            evidence = Evidence.KEPT if there else Evidence.TRIMMED
            verdict = judge(
                self.position, self.as_of, now=self.now, retention=DAY, evidence=evidence
            )
        if verdict is Verdict.GAP:
            self.delivered = max((n for n, at in self.records if at + DAY <= self.now), default=0)
            self.position = TRIM_HORIZON
            self.as_of = self.now - DAY + MARGIN * 2
            return verdict
        self._deliver(count)
        return verdict

    def _deliver(self, count: int) -> None:
        end = self.first_of_child if not self.in_child and self.first_of_child else 10**9
        unread = [(n, at) for n, at in self.kept() if n > self.delivered and n < end]
        for number, arrived_at in unread[:count]:
            self.delivered, self.position = number, After(SequenceNumber(str(number)))
            self.as_of = max(self.as_of, arrived_at)
        if len(unread) > count:
            return
        if not self.in_child and self.first_of_child is not None:
            self.in_child, self.position = True, TRIM_HORIZON
            self.as_of = inherited(later_as_of(known_at=self.now, retention=DAY), [self.as_of])
            return
        self.as_of = as_of_after_page(
            self.as_of, last_arrival=None, behind_ms=0, service_time=self.now, closed=False
        )


@pytest.mark.req("K-02")
@pytest.mark.case("X-01", "X-24")
@given(events)
def test_no_record_expires_unread_without_a_gap(history: list[tuple[str, int]]) -> None:
    life = Life()
    for kind, size in history:
        match kind:
            case "wait":
                life.now += timedelta(minutes=size)
            case "put":
                life.put(size)
            case "split":
                life.split()
            case "start":
                life.start()
            case "read":
                lost = life.expired_unread() if life.position is not None else 0
                verdict = life.read(size)
                assert not lost or verdict is Verdict.GAP


@pytest.mark.case("X-15", "X-24")
@given(events)
def test_a_reader_that_is_never_a_day_behind_never_meets_a_gap(
    history: list[tuple[str, int]],
) -> None:
    life = Life()
    life.start()
    life.read(100)
    for kind, size in history:
        match kind:
            case "wait":
                life.now += timedelta(minutes=size)
                assert life.read(100) is not Verdict.GAP  # the shard, or all but its child
                assert life.read(100) is not Verdict.GAP
                assert life.as_of >= life.now - SKEW
            case "put":
                life.put(size)
            case "split":
                life.split()
            case _:
                pass
