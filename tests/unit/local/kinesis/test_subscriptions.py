from __future__ import annotations

from typing import Any

import pytest

from shardline.local.kinesis.consumers import register_consumer
from shardline.local.kinesis.subscriptions import (
    HEARTBEAT_MS,
    LIFETIME_MS,
    TAKEOVER_MS,
    Subscription,
    subscribe,
)
from shardline.local.refusals import Refusal
from tests.twins.kinesis import KinesisTwin

ROOT = "shardId-000000000000"
MIB = 2**20


class World:
    """A stream with a consumer, and subscriptions at the time of its clock."""

    def __init__(self) -> None:
        self.twin = KinesisTwin()
        request = {"StreamName": self.twin.name, "ConsumerName": "billing"}
        answer = register_consumer(self.twin.account, request, self.now_ms())
        self.arn = answer["Consumer"]["ConsumerARN"]

    def now_ms(self) -> int:
        return self.twin.clock.now_ms()

    def subscribe(self, **position: Any) -> Subscription:
        request = {
            "ConsumerARN": self.arn,
            "ShardId": ROOT,
            "StartingPosition": position or {"Type": "TRIM_HORIZON"},
        }
        return subscribe(self.twin.account, request, self.now_ms())

    def records(self, subscription: Subscription) -> int | None:
        """Return the number of records of the next event, or None if there is no event."""
        event = subscription.next_event(self.now_ms())
        return None if event is None else event.page.end - event.page.start


@pytest.mark.req("E-08")
def test_a_consumer_gets_two_mebibytes_a_second_of_a_shard() -> None:
    world = World()
    for _ in range(8):
        world.twin.put("k", bytes(MIB - 1))
    world.twin.account.limits.enabled = True
    subscription = world.subscribe()
    assert [world.records(subscription) for _ in range(3)] == [1, 1, None]
    world.twin.clock.advance(1)
    assert [world.records(subscription) for _ in range(3)] == [1, 1, None]


def test_a_quiet_shard_gives_an_empty_event_first_and_then_every_five_seconds() -> None:
    world = World()
    subscription = world.subscribe(Type="LATEST")
    assert [world.records(subscription) for _ in range(2)] == [0, None]
    world.twin.clock.advance(HEARTBEAT_MS / 1000)
    assert [world.records(subscription) for _ in range(2)] == [0, None]


@pytest.mark.req("E-07")
def test_the_continuation_of_an_empty_event_has_neither_a_gap_nor_a_repeat() -> None:
    world = World()
    world.twin.put("k", b"1")
    event = world.subscribe(Type="LATEST").next_event(world.now_ms())
    assert event is not None
    number = event.members["ContinuationSequenceNumber"]
    world.twin.put("k", b"2")
    world.twin.clock.advance(TAKEOVER_MS / 1000)
    following = world.subscribe(Type="AFTER_SEQUENCE_NUMBER", SequenceNumber=number)
    assert world.records(following) == 1


@pytest.mark.req("E-08")
def test_a_subscription_ends_after_its_lifetime() -> None:
    world = World()
    subscription = world.subscribe()
    world.twin.clock.advance(LIFETIME_MS / 1000 - 0.001)
    assert world.records(subscription) == 0
    assert not subscription.ended
    world.twin.clock.advance(0.001)
    assert world.records(subscription) is None
    assert subscription.ended


@pytest.mark.req("E-08")
def test_a_subscription_is_taken_over_no_sooner_than_after_five_seconds() -> None:
    world = World()
    first = world.subscribe()
    world.twin.clock.advance(TAKEOVER_MS / 1000 - 0.001)
    with pytest.raises(Refusal, match="Another active subscription"):
        world.subscribe()
    assert world.records(first) == 0
    world.twin.clock.advance(0.001)
    second = world.subscribe()
    with pytest.raises(Refusal, match="Another active subscription"):
        world.records(first)
    assert world.records(second) == 0


@pytest.mark.req("E-07")
def test_the_end_of_a_shard_comes_only_after_its_last_record() -> None:
    world = World()
    subscription = world.subscribe()
    for _ in range(3):
        world.twin.put("k", bytes(MIB - 1))
    low, high = world.twin.split(ROOT)
    events = [subscription.next_event(world.now_ms()) for _ in range(3)]
    last = events[-1]
    assert last is not None
    assert [event is not None and "ChildShards" in event.members for event in events] == [
        *(False, False),
        True,
    ]
    assert last.members["ContinuationSequenceNumber"] is None
    assert [child["ShardId"] for child in last.members["ChildShards"]] == [low, high]
    assert subscription.ended
