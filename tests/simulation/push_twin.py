"""A twin that pushes: subscriptions that end, are refused, taken over, cut, silent, and repeat."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from shardline.local.kinesis.consumers import existing_consumers, register_consumer
from shardline.local.kinesis.subscriptions import subscribe
from shardline.local.push import _payload
from shardline.local.refusals import Refusal
from shardline.services.fan_out.port import (
    SubscriptionBroken,
    SubscriptionEnded,
    SubscriptionTaken,
)
from shardline.services.fan_out.subscription import SILENCE_SECONDS
from shardline.services.iterators import iterator_parameters
from shardline.services.port import Page
from shardline.services.wire.kinesis import decode_event
from tests.simulation.fast_twin import _NOTHING, FastTwin
from tests.simulation.table_stream import SimTableStream, TableTwin

if TYPE_CHECKING:
    from shardline.core.positions import Position
    from shardline.local.kinesis.subscriptions import Subscription
    from tests.simulation.calls import Done
    from tests.simulation.world import World

CONSUMER = "billing"
_LOOK_SECONDS = 0.2


class PushTwin(FastTwin):
    """The stream of another twin, with subscriptions that fare as the world's network does."""

    def __init__(self, twin: FastTwin, world: World) -> None:
        super().__init__(name=twin.name, clock=twin.clock, account=twin.account)
        self.note_read = twin.note_read  # type: ignore[method-assign]
        self._world = world

    def subscribe(self, shard_id: str, position: Position) -> SimSubscription:
        start = iterator_parameters(shard_id, position, "SequenceNumber")
        start["Type"] = start.pop("ShardIteratorType")
        if "Timestamp" in start:
            start["Timestamp"] = start["Timestamp"].timestamp()
        now_ms = self.clock.now_ms()
        with self._calling("SubscribeToShard", shard_id):
            stream = self._stream()
            if not existing_consumers(stream, now_ms):
                self._register(stream.arn, now_ms)
            request = {"ShardId": shard_id, "StartingPosition": start}
            consumer = {"StreamARN": stream.arn, "ConsumerName": CONSUMER}
            subscription = subscribe(self.account, request | consumer, now_ms)
        return SimSubscription(self._world, self, subscription)

    def report_polling(self, shard_id: str, reason: str, seconds: float) -> None:
        """Nobody reads it."""

    def _register(self, stream_arn: str, now_ms: int) -> None:
        """Register the consumer again some time after somebody deregistered it."""
        if self._world.random.random() < 0.5:
            request = {"StreamARN": stream_arn, "ConsumerName": CONSUMER}
            register_consumer(self.account, request, now_ms)


class SimSubscription:
    """One subscription. Calls to it are performed in virtual time: see `calls.Calls`."""

    def __init__(self, world: World, twin: PushTwin, subscription: Subscription) -> None:
        self._world = world
        self._twin = twin
        self._subscription = subscription
        self._shard_id = subscription.shard.id
        self._heard_at = world.clockwork.now
        self._ends_at = self._heard_at + world.random.choice((5.0, 20.0, 300.0))
        self._last: Page | None = None
        self._following: Page | None = None
        """What comes after a repeat."""

    def next(self, wait_seconds: float) -> Page | None:
        raise NotImplementedError("performed in virtual time")

    def close(self) -> None:
        """The service notices by itself, or never."""

    def perform(self, name: str, arguments: tuple[Any, ...], done: Done) -> None:
        assert name == "next"
        self._look(self._world.clockwork.now + arguments[0], done)

    def _look(self, until: float, done: Done) -> None:
        clockwork = self._world.clockwork
        try:
            page = self._take()
        except (SubscriptionBroken, SubscriptionEnded, SubscriptionTaken) as error:
            done(None, error)
            return
        if page is not None:
            clockwork.after(0.02 * self._world.random.random(), partial(done, page, None))
        elif clockwork.now >= until:
            done(None, None)
        else:
            clockwork.after(_LOOK_SECONDS, partial(self._look, until, done))

    def _take(self) -> Page | None:
        now, random = self._world.clockwork.now, self._world.random
        kinds = self._world.network.kinds("reading", self._shard_id, now)
        if kinds & {"outage", "hang"}:
            if now - self._heard_at > SILENCE_SECONDS:
                raise SubscriptionBroken("silent")
            return None
        if now >= self._ends_at:
            raise SubscriptionEnded("its time is over")
        if self._following is not None:
            page, self._following = self._following, None
            return page
        try:
            event = self._subscription.next_event(self._twin.clock.now_ms())
        except Refusal as refusal:
            raise SubscriptionTaken(str(refusal)) from refusal
        if event is None:
            if self._subscription.ended:
                raise SubscriptionEnded("five minutes are over")
            return None
        if random.random() < (0.25 if "lose" in kinds else 0.02):
            raise SubscriptionBroken("cut, and the event was on its way")
        self._heard_at = now
        page = self._page(_payload(self._subscription, event, in_cbor=False))
        if self._last is not None and random.random() < 0.02:
            self._following, page = page, self._last  # a repeat before it
        self._last = page
        return page

    def _page(self, payload: bytes) -> Page:
        answer = decode_event(payload)
        time = datetime.fromtimestamp(self._twin.clock.now_ms() / 1000, UTC)
        self._twin.note_read(self._shard_id, time)
        return Page(
            answer.records if answer.records.num_rows else _NOTHING,
            answer.next_iterator,
            answer.behind_ms,
            answer.children,
            time,
        )


def service_of(world: World, name: str, created_at: datetime | None) -> FastTwin | TableTwin:
    """Return the stream as a runner sees it."""
    stream = world.streams[name]
    if isinstance(stream, SimTableStream):
        assert created_at is not None
        return stream.open_from(created_at)
    twin: FastTwin = stream.twin
    return PushTwin(twin, world) if world.knobs.fan_out else twin
