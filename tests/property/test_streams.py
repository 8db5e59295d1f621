"""Random histories: whatever happens, a stream loses nothing, repeats nothing and keeps order."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from shardline.local.clock import Clock
from shardline.local.dynamodb_streams.control import Tables
from shardline.services.pace import UNPACED
from shardline.streams.stream import Stream
from tests.twins.dynamodb_streams import DynamoDBTwin
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.core.gaps import Gap
    from shardline.local.kinesis.streams import Stream as StoredStream
    from shardline.services.port import Page, StreamService

START = datetime(2026, 11, 15, 12, tzinfo=UTC)
KEYS = [f"key-{n}" for n in range(6)]


class World(Protocol):
    """A stream that can be written to and resharded."""

    clock: Clock
    service: StreamService

    def put(self, key: str, choice: int) -> tuple[str, int]: ...
    def reshard(self, choice: int) -> None: ...
    def disturb(self, stream: Stream[Any]) -> None: ...
    def parents(self) -> dict[str, tuple[str, ...]]: ...


class SlowTwin(DynamoDBTwin):
    """A stream whose reads take time: silence is measured in it. Some pages are empty."""

    empty_share = 0.0
    draws = Random(0)

    def read(self, iterator: str, max_records: int) -> Page:
        self._clock.advance(0.1)
        page = super().read(iterator, max_records)
        if page.next_iterator is not None and self.draws.random() < self.empty_share:
            return replace(page, records=page.records.slice(0, 0), next_iterator=iterator)
        return page


class Table:
    """A table whose clock may run backwards by up to an hour."""

    backwards_minutes = 60

    def __init__(self, shards: int) -> None:
        self.clock = Clock(START)
        self.tables = Tables(self.clock)
        self.tables.create_table("users", shards=shards)
        self.twin = SlowTwin(self.tables, "users")
        self.service: StreamService = self.twin

    def put(self, key: str, choice: int) -> tuple[str, int]:
        keys = {"id": {"S": key}}
        at = self.clock.now() - timedelta(minutes=choice % self.backwards_minutes)
        put = self.tables.put_change("users", keys, new=keys, at=at)
        return put.shard, int(put.sequence_number)

    def reshard(self, choice: int) -> None:
        still_open = [s.id for s in self.service.list_shards() if not s.closed]
        act = self.tables.roll if choice % 3 == 0 else self.tables.split
        act("users", still_open[choice % len(still_open)])

    def disturb(self, stream: Stream[Any]) -> None:
        for _ in range(2):
            self.clock.advance(12 * 60 + 1)  # iterators expire that no heartbeat renews
            stream.heartbeat()

    def parents(self) -> dict[str, tuple[str, ...]]:
        return {shard.id: shard.parents for shard in self.service.list_shards()}


class Queue:
    """A Kinesis stream that splits and merges, and whose listings are now and then stale."""

    def __init__(self, shards: int) -> None:
        self.clock = Clock(START)
        self.twin = KinesisTwin(shards, clock=self.clock)
        self.service: StreamService = self.twin

    def put(self, key: str, choice: int) -> tuple[str, int]:
        self.clock.advance(choice % 3 / 1000)
        written = self.twin.put(key, b"x" * (choice % 7))
        return written.shard_id, int(written.sequence)

    def reshard(self, choice: int) -> None:
        still_open = self._stored().open_shards
        index = choice % len(still_open)
        if choice % 2 and index + 1 < len(still_open):
            self.twin.merge(still_open[index].id, still_open[index + 1].id)
        else:
            self.twin.split(still_open[index].id)

    def disturb(self, stream: Stream[Any]) -> None:
        stream.heartbeat()
        self.twin.account.faults.add("stale-listing", "ListShards")

    def parents(self) -> dict[str, tuple[str, ...]]:
        return {shard.id: tuple(p.id for p in shard.parents) for shard in self._stored().shards}

    def _stored(self) -> StoredStream:
        return self.twin.account.find(self.twin.name, self.clock.now_ms())


class Consumer:
    """Reads a world through a stream, moves and restarts it, and tells the checker everything."""

    def __init__(self, world: World, position: str, page_size: int) -> None:
        self.world, self.page_size = world, page_size
        self.gaps: list[Gap] = []
        self.gaps_before = 0
        self.parents: dict[str, tuple[str, ...]] = {}
        self.checker = PromiseChecker()
        self.written: set[tuple[str, int]] = set()
        self.delivered: set[tuple[str, int]] = set()
        self.batch = 0
        self.went_back = False
        self.saved: tuple[str, frozenset[tuple[str, int]]] | None = None
        self.stream = self.open(position)

    def open(self, position: str | Mapping[str, Any]) -> Stream[Any]:
        return Stream(
            self.world.service,
            position,
            page_size=self.page_size,
            connections=1,
            quota=UNPACED,
            clock=lambda: self.world.clock.now_ms() / 1000,
            on_gap="go_on",
        )

    def wrote(self, key: str, choice: int) -> None:
        shard_id, sequence = self.world.put(key, choice)
        self.written.add((shard_id, sequence))
        self.checker.wrote(shard_id, RecordRef(key, sequence))
        self.know_shards()

    def know_shards(self) -> None:
        self.parents |= self.world.parents()
        for shard_id, parents in self.parents.items():
            self.checker.shard(shard_id, parents)

    def take(self, count: int) -> bool:
        for _ in range(count):
            record = next(self.stream)
            self.note_gaps()
            if record is None:
                return False
            at = (record.shard_id, int(record.sequence_number))
            assert at not in self.delivered, f"{at} came again"
            self.delivered.add(at)
            key = record.partition_key if hasattr(record, "data") else record.keys["id"]["S"]
            ref = RecordRef(key, at[1])
            self.checker.delivered(record.shard_id, Fence(0, self.batch), [ref])
        return True

    def note_gaps(self) -> None:
        for gap in self.stream.gaps[len(self.gaps) - self.gaps_before :]:
            self.gaps.append(gap)
            for shard_id in (gap.shard_id, *self.ancestors(gap.shard_id)):
                self.checker.gap(shard_id)

    def ancestors(self, shard_id: str) -> set[str]:
        parents = self.parents.get(shard_id, ())
        return {*parents, *(a for parent in parents for a in self.ancestors(parent))}

    def restart(self, *, move: bool) -> None:
        """Go on from the token, in the same stream or in another process."""
        token = json.dumps(self.stream.token)
        self.batch += 1
        if move:
            self.stream.move_to(token)
        else:
            self.note_gaps()
            self.stream = self.open(token)
            self.gaps_before = len(self.gaps)

    def save(self) -> None:
        self.saved = json.dumps(self.stream.token), frozenset(self.delivered)

    def go_back(self) -> None:
        if self.saved is not None:
            token, delivered = self.saved
            self.stream.move_to(token)
            self.delivered = set(delivered)
            self.batch += 1
            self.went_back = True

    def drain(self, idle_answers: int) -> None:
        """Read until nothing comes, though so many answers may be stale or empty."""
        idle_rounds = 0
        while idle_rounds < 3 + idle_answers:
            idle_rounds = 0 if self.take(1) else idle_rounds + 1
            self.world.clock.advance(5)


def play(
    world: World, position: str, page_size: int, steps: list[int], empty_pages: int = 0
) -> None:
    for key in KEYS[:2]:
        world.put(key, 0)
    world.clock.advance(120)  # a token of "latest" may repeat what was written in the minute before
    consumer = Consumer(world, position, page_size)
    if position == "trim_horizon":
        consumer.stream = consumer.open(position)
        for record in iter(lambda: next(consumer.stream), None):
            assert record.shard_id  # the two from before the checker came
    for step in steps:
        choice = step // 12
        match step % 12:
            case 0 | 1:
                world.reshard(choice)
            case 2:
                consumer.restart(move=True)
            case 3:
                consumer.restart(move=False)
            case 4:
                consumer.save()
            case 5:
                consumer.go_back()
            case 6:
                world.disturb(consumer.stream)
            case 7:
                consumer.stream.heartbeat()
                world.clock.advance(choice % 4)
            case 8 | 9:
                consumer.take(1 + choice % 5)
            case _:
                consumer.wrote(KEYS[choice % len(KEYS)], choice)
    consumer.drain(sum(step % 12 == 6 for step in steps) + empty_pages)
    assert consumer.delivered == consumer.written
    assert not consumer.gaps
    verdict = consumer.checker.verdict().require()
    assert verdict.lost == 0
    if not consumer.went_back:
        assert verdict.repeated == 0


HISTORIES = {
    "position": st.sampled_from(["trim_horizon", "latest"]),
    "page_size": st.integers(1, 10),
    "shards": st.integers(1, 3),
    "steps": st.lists(st.integers(0, 12 * 60 - 1), max_size=60),
}


@pytest.mark.req("O-01", "O-02", "O-16", "O-19", "O-21", "O-22", "C-10", "C-12", "C-17", "C-18")
@pytest.mark.case("T-01", "T-02", "T-04", "T-05", "T-06", "L-20")
@settings(max_examples=100)
@given(**HISTORIES)
def test_a_table_with_clocks_that_run_backwards(
    position: str, page_size: int, shards: int, steps: list[int]
) -> None:
    play(Table(shards), position, page_size, steps)


@pytest.mark.req("C-12", "O-22")
@pytest.mark.case("T-01")
@settings(max_examples=100)
@given(seed=st.integers(0, 99), **{name: HISTORIES[name] for name in ("shards", "steps")})
def test_a_table_whose_pages_are_empty_for_no_reason(
    seed: int, shards: int, steps: list[int]
) -> None:
    world = Table(shards)
    world.backwards_minutes = 1  # the place of "latest" is found by the stamps of records
    world.twin.draws, world.twin.empty_share = Random(seed), 0.7
    play(world, "latest", 3, steps, empty_pages=40)


@pytest.mark.req("O-01", "O-02", "O-05", "O-16", "O-19", "O-21", "O-22", "C-10", "C-12")
@pytest.mark.case("T-01", "L-01", "L-12", "L-20", "L-21")
@settings(max_examples=100)
@given(**HISTORIES)
def test_a_kinesis_stream_that_splits_and_merges_with_stale_listings(
    position: str, page_size: int, shards: int, steps: list[int]
) -> None:
    play(Queue(shards), position, page_size, steps)


@pytest.mark.req("K-02")
@pytest.mark.case("T-09", "L-17", "L-03")
@settings(max_examples=100)
@given(
    kind=st.sampled_from([Table, Queue]),
    steps=st.lists(st.integers(0, 8 * 60 - 1), max_size=60),
    **{name: HISTORIES[name] for name in ("position", "page_size", "shards")},
)
@example(kind=Table, position="trim_horizon", page_size=1, shards=1, steps=[0, 0, 1, 5, 442])
@example(kind=Table, position="trim_horizon", page_size=1, shards=1, steps=[5, 434])
@example(kind=Queue, position="trim_horizon", page_size=2, shards=1, steps=[5, 0, 5, 18, 243, 178])
@example(kind=Table, position="latest", page_size=1, shards=1, steps=[0, 1, 5, 202])
def test_what_expires_unread_is_always_a_gap(
    kind: type[Table | Queue], position: str, page_size: int, shards: int, steps: list[int]
) -> None:
    world: World = kind(shards)
    consumer = Consumer(world, position, page_size)
    consumer.take(1)
    for step in steps:
        choice = step // 8
        match step % 8:
            case 0:
                world.reshard(choice)
                consumer.know_shards()
            case 1:
                consumer.restart(move=False)
            case 2:
                assert consumer.stream.token  # pins "latest", which no heartbeat keeps here
                world.clock.advance(3600 * (choice % 30))
            case 3 | 4:
                consumer.take(1 + choice % 5)
            case _:
                consumer.wrote(KEYS[choice % len(KEYS)], choice)
    consumer.drain(idle_answers=0)
    # A shard that came and went unseen is covered by the gap of one that descends from it.
    gaps = {gap.shard_id for gap in consumer.gaps}
    covered = gaps.union(*(consumer.ancestors(shard_id) for shard_id in gaps))
    undelivered = consumer.written - consumer.delivered
    assert {shard_id for shard_id, _ in undelivered} <= covered
    consumer.checker.verdict().require()


# --- the total order ----------------------------------------------------------------------------


class Family:
    """A finished history: shards with their parents, children, and records with claimed times."""

    def __init__(self, roots: int, steps: list[tuple[int, int]]) -> None:
        self.world = Table(roots)
        self.records: dict[str, list[tuple[int, str]]] = {}
        for number, (choice, minutes) in enumerate(steps):
            if choice % 5 == 0:
                self.world.reshard(choice // 5)
                continue
            still_open = [s.id for s in self.world.service.list_shards() if not s.closed]
            shard = still_open[choice % len(still_open)]
            keys = {"id": {"S": f"R{number}"}}
            at = START - timedelta(minutes=minutes)
            self.world.tables.put_change("users", keys, new=keys, at=at, shard=shard)
            self.records.setdefault(shard, []).append((-minutes, f"R{number}"))

    def order(self) -> list[str]:
        """The rule, word by word: of what may come next, the oldest; then the lower clock."""
        listed = self.world.service.list_shards()
        left = {shard.id: list(self.records.get(shard.id, [])) for shard in listed}
        order = []
        while any(left.values()):
            heads = [
                (left[shard.id][0][0], clock, shard.id)
                for clock, shard in enumerate(listed)
                if left[shard.id] and not any(self._unread(p, left) for p in shard.parents)
            ]
            order.append(left[min(heads)[2]].pop(0)[1])
        return order

    def _unread(self, shard_id: str, left: dict[str, list[tuple[int, str]]]) -> bool:
        parents = {s.id: s.parents for s in self.world.service.list_shards()}[shard_id]
        return bool(left[shard_id]) or any(self._unread(p, left) for p in parents)


@pytest.mark.req("C-17", "C-18", "C-24", "C-25", "C-26")
@pytest.mark.case("T-04", "T-05", "T-06")
@settings(max_examples=100)
@given(
    roots=st.integers(1, 3),
    steps=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 5)), max_size=40),
    page_size=st.integers(1, 10),
    restart_every=st.integers(1, 8),
)
def test_the_order_depends_on_neither_pages_nor_restarts(
    roots: int, steps: list[tuple[int, int]], page_size: int, restart_every: int
) -> None:
    family = Family(roots, steps)
    consumer = Consumer(family.world, "trim_horizon", page_size)
    given_names: list[str] = []
    while (record := next(consumer.stream)) is not None:
        given_names.append(record.keys["id"]["S"])
        if len(given_names) % restart_every == 0:
            consumer.restart(move=len(given_names) % 2 == 0)
    assert given_names == family.order()
