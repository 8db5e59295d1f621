"""A twin of Kinesis with enhanced fan-out: subscriptions of the embedded service, without HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shardline.local.kinesis.consumers import existing_consumers, register_consumer
from shardline.local.kinesis.subscriptions import subscribe
from shardline.local.push import _payload
from shardline.services.fan_out.port import SubscriptionEnded
from shardline.services.iterators import iterator_parameters
from shardline.services.port import Page
from shardline.services.wire.kinesis import decode_event
from tests.twins.kinesis import KinesisTwin

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.core.positions import Position
    from shardline.local.kinesis.subscriptions import Subscription

CONSUMER = "billing"


class PushingTwin(KinesisTwin):
    """`wait` lets virtual time pass while nothing is pushed."""

    wait: Callable[[float], None]

    def subscribe(self, shard_id: str, position: Position) -> Pushed:
        start = iterator_parameters(shard_id, position, "SequenceNumber")
        start["Type"] = start.pop("ShardIteratorType")
        now_ms = self.clock.now_ms()
        with self._calling("SubscribeToShard", shard_id):
            stream = self._stream()
            consumer = {"StreamARN": stream.arn, "ConsumerName": CONSUMER}
            if not existing_consumers(stream, now_ms):
                register_consumer(self.account, dict(consumer), now_ms)
            request = {"ShardId": shard_id, "StartingPosition": start, **consumer}
            return Pushed(self, subscribe(self.account, request, now_ms))

    def report_polling(self, shard_id: str, reason: str, seconds: float) -> None:
        """Nobody reads it."""


class Pushed:
    """One subscription."""

    def __init__(self, twin: PushingTwin, subscription: Subscription) -> None:
        self._twin = twin
        self._subscription = subscription

    def next(self, wait_seconds: float) -> Page | None:
        now_ms = self._twin.clock.now_ms()
        event = self._subscription.next_event(now_ms)
        if event is None:
            if self._subscription.ended:
                raise SubscriptionEnded("five minutes are over")
            self._twin.wait(max(wait_seconds, 0.1))
            return None
        answer = decode_event(_payload(self._subscription, event, in_cbor=False))
        time = datetime.fromtimestamp(now_ms / 1000, UTC)
        return Page(answer.records, answer.next_iterator, answer.behind_ms, answer.children, time)

    def close(self) -> None:
        """No-op: the service ends it after five minutes."""
