"""Two checkers, written apart, agree on every history; and each breach is planted and found."""

from __future__ import annotations

import logging
from random import Random
from typing import TYPE_CHECKING

import pytest

from shardline.core.fences import Fence
from shardline.core.promise import PromiseChecker, RecordRef
from tests.simulation.history import (
    Checkpointed,
    Delivered,
    Excused,
    ShardOpened,
    Wrote,
    judge,
)
from tests.simulation.second_checker import check
from tests.simulation.world import history_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.simulation.history import Event


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def first_verdict(events: Iterable[Event]) -> tuple[dict[str, int], int, int, int]:
    checker = PromiseChecker()
    for event in events:
        judge(checker, event)
    verdict = checker.verdict()
    kinds = {breach.name: count for breach, count in verdict.breaches.items()}
    return kinds, verdict.lost, verdict.repeated, verdict.stale


def second_verdict(events: Iterable[Event]) -> tuple[dict[str, int], int, int, int]:
    found = check(events)
    kinds = {name: count for name, count in found.kinds.items() if count}
    return kinds, found.lost, found.repeated, found.stale


def delivered(shard: str, epoch: int, delivery: int, text: str, owner: str = "a") -> Delivered:
    return Delivered(shard, Fence(epoch, delivery), refs(text), owner)


def refs(text: str) -> tuple[RecordRef, ...]:
    """Read "A1 B1" as records of keys A and B."""
    return tuple(RecordRef(word[0], int(word[1:]) * 100 + ord(word[0])) for word in text.split())


def place(word: str) -> int:
    return refs(word)[0].sequence


def kept_history() -> list[Event]:
    """Return a parent that is split in the hands of two workers, with nothing wrong."""
    return [
        ShardOpened("p", ()),
        *(Wrote("p", ref) for ref in refs("A1 B1 A2 B2 A3 B3")),
        ShardOpened("left", ("p",)),
        ShardOpened("right", ("p",)),
        *(Wrote("left", ref) for ref in refs("A4 A5")),
        *(Wrote("right", ref) for ref in refs("B4 B5")),
        delivered("p", 1, 1, "A1 B1"),
        Checkpointed("p", 1, place("B1"), "a"),
        delivered("p", 1, 2, "A2 B2"),
        delivered("p", 2, 1, "A2 B2 A3 B3", "b"),
        Checkpointed("p", 2, None, "b"),
        delivered("left", 3, 1, "A4 A5"),
        Checkpointed("left", 3, place("A5"), "a"),
        delivered("right", 3, 1, "B4 B5", "b"),
        Checkpointed("right", 3, place("B5"), "b"),
    ]


def index(events: list[Event], kind: type, nth: int) -> int:
    return [i for i, event in enumerate(events) if isinstance(event, kind)][nth]


def swap(events: list[Event], kind: type, one: int, other: int) -> None:
    i, j = index(events, kind, one), index(events, kind, other)
    events[i], events[j] = events[j], events[i]


def after(events: list[Event], kind: type, nth: int, new: Event) -> None:
    events.insert(index(events, kind, nth) + 1, new)


PLANTS: dict[str, Callable[[list[Event]], object]] = {
    "LOST": lambda e: e.pop(index(e, Delivered, 3)),
    "OUT_OF_ORDER": lambda e: e.__setitem__(
        index(e, Delivered, 3), delivered("left", 3, 1, "A5 A4")
    ),
    "CHILD_BEFORE_PARENT": lambda e: e.insert(
        index(e, Delivered, 0), delivered("left", 3, 1, "A4")
    ),
    "REPLAYED_CHECKPOINTED": lambda e: after(e, Checkpointed, 0, delivered("p", 1, 2, "A1", "a")),
    "CHECKPOINTED_UNDELIVERED": lambda e: after(
        e, Delivered, 0, Checkpointed("p", 1, place("A2"), "a")
    ),
    "CHECKPOINT_WENT_BACK": lambda e: after(
        e, Checkpointed, 2, Checkpointed("left", 3, place("A4"), "a")
    ),
    "TWO_OWNERS": lambda e: after(e, Delivered, 1, delivered("p", 1, 3, "A2 B2", "c")),
    "ZOMBIE_CHECKPOINT": lambda e: after(e, Delivered, 2, Checkpointed("p", 1, place("B2"), "a")),
    "INVENTED": lambda e: after(e, Delivered, 3, delivered("left", 3, 2, "A9")),
}


@pytest.mark.req("O-06", "K-47")
def test_a_kept_history_is_kept_for_both() -> None:
    expected: tuple[dict[str, int], int, int, int] = ({}, 0, 2, 0)
    assert first_verdict(kept_history()) == second_verdict(kept_history()) == expected


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_breach_is_found_by_both(kind: str) -> None:
    events = kept_history()
    PLANTS[kind](events)
    assert kind in first_verdict(events)[0]
    assert kind in second_verdict(events)[0]


@pytest.mark.parametrize("seed", range(6))
def test_both_agree_on_what_happened_and_on_what_did_not(seed: int) -> None:
    """Histories of simulated worlds, with events left out, doubled, changed or exchanged."""
    whole = history_of(seed)
    assert first_verdict(whole) == second_verdict(whole)
    assert not first_verdict(whole)[0]
    random = Random(seed)
    found: set[str] = set()
    for _ in range(40):
        events = list(whole)
        fixed = [i for i, e in enumerate(events) if not isinstance(e, Wrote | ShardOpened)]
        for _ in range(random.randrange(1, 4)):
            _disturb(events, random, fixed)
        assert first_verdict(events) == second_verdict(events)
        found |= first_verdict(events)[0].keys()
    assert found, "no disturbance broke a promise"


def _disturb(events: list[Event], random: Random, places: list[int]) -> None:
    i, j = random.choice(places), random.choice(places)
    match random.randrange(4):
        case 0:
            events[i], events[j] = events[j], events[i]
        case 1:
            events[i] = Excused("nothing")
        case 2:
            events[i] = events[j]
        case _:
            event = events[i]
            if isinstance(event, Delivered):
                fence = Fence(event.fence.epoch + random.randrange(-1, 2), event.fence.delivery)
                records = event.records[:: random.choice((1, -1, 2))]
                events[i] = Delivered(event.shard, fence, records, event.owner)
