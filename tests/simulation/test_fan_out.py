"""Every promise is kept while shards are pushed, whatever becomes of the subscriptions."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from shardline.core.positions import LATEST, SHARD_END
from shardline.services.fan_out.cursor import FanOutCursor
from shardline.services.fan_out.port import SubscriptionBroken, SubscriptionEnded, SubscriptionTaken
from tests.simulation.push_twin import PushTwin, SimSubscription
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import Outcome

NIGHTS = (4, 42, 44, 118, 150, 159, 163, 197)
"""Seeds in which all workers are down for so long that records expire unread."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def simulate_pushed(seed: int) -> Outcome:
    """Run the world of a seed with subscriptions."""
    return World(seed, knobs=replace(World(seed).knobs, fan_out=True, tables=False)).run()


@pytest.mark.req("F-02", "F-04", "F-05", "F-06")
@pytest.mark.parametrize("first", [0, 30])
def test_every_promise_is_kept_while_shards_are_pushed(first: int) -> None:
    for seed in range(first, first + 30):
        outcome = simulate_pushed(seed)
        assert not outcome.failure, f"seed {seed}, pushed: {outcome.failure}"


@pytest.mark.req("F-07")
def test_what_expired_in_a_night_is_a_gap_on_record_while_shards_are_pushed() -> None:
    for seed in NIGHTS:
        assert any(fault.kind == "night" for fault in World(seed).faults), seed
        outcome = simulate_pushed(seed)
        assert not outcome.failure, f"seed {seed}, pushed: {outcome.failure}"


def test_subscriptions_end_break_are_taken_over_and_refused_or_nothing_is_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[str] = Counter()
    take, subscribe = SimSubscription._take, PushTwin.subscribe

    def counting_take(self: SimSubscription) -> Any:
        try:
            page = take(self)
        except (SubscriptionBroken, SubscriptionEnded, SubscriptionTaken) as error:
            seen[type(error).__name__] += 1
            raise
        seen["events"] += page is not None
        return page

    def counting_subscribe(self: PushTwin, *arguments: Any) -> Any:
        try:
            return subscribe(self, *arguments)
        except Exception:
            seen["refused"] += 1
            raise

    monkeypatch.setattr(SimSubscription, "_take", counting_take)
    monkeypatch.setattr(PushTwin, "subscribe", counting_subscribe)
    kinds = {"events", "refused", "SubscriptionBroken", "SubscriptionEnded", "SubscriptionTaken"}
    for seed in range(60):
        simulate_pushed(seed)
    assert set(seen) == kinds
    assert seen["events"] > 100


def _repeats_are_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FanOutCursor, "_without_repeats", lambda self, page: page)


def _polling_does_not_move_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def polled(self: Any, max_records: int) -> Any:
        self._poller = self._poller or self._poll_from(self._place)
        page = yield from self._poller.read_steps(max_records)
        self._nothing_new = page
        return page

    monkeypatch.setattr(FanOutCursor, "_polled", polled)


def _the_next_subscription_starts_at_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    release: Any = FanOutCursor._release

    def forgetting(self: Any) -> None:
        release(self)
        self._place = LATEST

    monkeypatch.setattr(FanOutCursor, "_release", forgetting)


def _the_end_of_a_subscription_is_that_of_its_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    release: Any = FanOutCursor._release

    def ending(self: Any) -> None:
        release(self)
        self._position = SHARD_END

    monkeypatch.setattr(FanOutCursor, "_release", ending)


def _a_refusal_forgets_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    poll: Any = FanOutCursor._poll_for_now

    def forgetting(self: Any, reason: str) -> None:
        poll(self, reason)
        self._place, self._poller = LATEST, None

    monkeypatch.setattr(FanOutCursor, "_poll_for_now", forgetting)


@pytest.mark.parametrize(
    "bug",
    [
        _repeats_are_delivered,
        _polling_does_not_move_the_place,
        _the_next_subscription_starts_at_latest,
        _the_end_of_a_subscription_is_that_of_its_shard,
        _a_refusal_forgets_the_place,
    ],
)
def test_a_bug_is_caught(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert any(simulate_pushed(seed).failure for seed in (82, 85, 115, 137, 160, *range(60)))
