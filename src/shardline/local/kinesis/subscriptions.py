"""SubscribeToShard: what a subscription sends, and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shardline.local.kinesis.account import stream_not_found
from shardline.local.kinesis.consumers import Consumer, existing_consumers, find_consumer
from shardline.local.kinesis.listing import child_descriptions
from shardline.local.kinesis.positions import Start, starting_tick
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.shards import PageSlice, ShardLog
    from shardline.local.kinesis.streams import Stream

LIFETIME_MS: Final = 300_000
TAKEOVER_MS: Final = 5_000
HEARTBEAT_MS: Final = 5_000
MAX_EVENT_BYTES: Final = 1024 * 1024
MAX_EVENT_RECORDS: Final = 10_000


class Event(NamedTuple):
    """One SubscribeToShardEvent: its records as a page of the shard, and its other members."""

    page: PageSlice
    members: dict[str, Any]


class Subscription:
    """One subscription of a consumer to a shard. It does no I/O: its caller asks for events."""

    def __init__(
        self,
        account: Account,
        stream: Stream,
        shard: ShardLog,
        consumer: Consumer,
        *,
        tick: int,
        now_ms: int,
    ) -> None:
        self.shard: Final = shard
        self.started_ms: Final = now_ms
        self.ended = False
        """True after the last event: the lifetime is over, or the shard is read to its end."""
        self._account = account
        self._stream = stream
        self._consumer = consumer
        self._tick = tick
        self._sent_ms: int | None = None
        self._limits_key = f"{consumer.arn}/{shard.id}"

    def next_event(self, now_ms: int) -> Event | None:
        """Return the next event, or None if there is none now or ever: see `ended`.

        Raises `Refusal` if the subscription was taken over, or its consumer or stream deleted.
        """
        self._require_current(now_ms)
        if now_ms - self.started_ms >= LIFETIME_MS:
            self.ended = True
        if self.ended or not self._account.limits.can_push(self._limits_key, now_ms):
            return None
        shard = self.shard
        shard.trim(self._stream.horizon_ms)
        page = shard.page(self._tick, MAX_EVENT_RECORDS, MAX_EVENT_BYTES)
        is_empty = page.start == page.end
        at_end = shard.closed is not None and not shard.behind_ms(page.end, now_ms)
        if is_empty and not at_end and not self._is_heartbeat_due(now_ms):
            return None
        self._sent_ms = now_ms
        size_bytes = shard.size_bytes(page)
        free_ms = self._account.limits.count_pushed(self._limits_key, size_bytes, now_ms)
        shard.reads.add(page.end - page.start, size_bytes, now_ms, free_ms=free_ms)
        self._tick = self._tick if is_empty else shard.tick_after(page)
        members: dict[str, Any] = {
            "ContinuationSequenceNumber": self._continuation(),
            "MillisBehindLatest": shard.behind_ms(page.end, now_ms),
        }
        if at_end:
            members["ContinuationSequenceNumber"] = None
            members["ChildShards"] = child_descriptions(shard)
            self.ended = True
        return Event(page, members)

    def _is_heartbeat_due(self, now_ms: int) -> bool:
        return self._sent_ms is None or now_ms - self._sent_ms >= HEARTBEAT_MS

    def _continuation(self) -> str:
        """Return the number after which the next subscription continues without a gap."""
        return self.shard.number(max(self._tick - 1, self.shard.opened.tick))

    def _require_current(self, now_ms: int) -> None:
        stream = self._account.find(self._stream.name, now_ms)
        if stream is not self._stream or stream.status == "DELETING":
            raise stream_not_found(stream.name)
        consumer = self._consumer
        if consumer.deleted_ms is not None or consumer not in existing_consumers(stream, now_ms):
            raise Refusal(
                "ResourceNotFoundException",
                f"Consumer {consumer.name} under stream {stream.name} not found for account "
                f"{ACCOUNT_ID}.",
            )
        if consumer.subscriptions.get(self.shard.id) is not self:
            raise _in_use(stream, self.shard, consumer)


def subscribe(account: Account, request: dict[str, Any], now_ms: int) -> Subscription:
    """Start a subscription, or raise `Refusal`. It takes over from one that is 5 s old."""
    stream, consumer = find_consumer(account, request, now_ms)
    _, shard = account.find_shard(stream.name, request["ShardId"], now_ms)
    if consumer.status(now_ms) != "ACTIVE":
        raise Refusal(
            "ResourceInUseException",
            f"Consumer {consumer.name} under stream {stream.name} not ACTIVE, instead in state "
            f"{consumer.status(now_ms)}",
        )
    position = request["StartingPosition"]
    start = Start(position["Type"], position.get("SequenceNumber"), position.get("Timestamp"))
    tick = starting_tick(stream, shard, start, "SubscribeToShard", now_ms)
    previous = consumer.subscriptions.get(shard.id)
    if previous is not None and now_ms - previous.started_ms < TAKEOVER_MS:
        raise _in_use(stream, shard, consumer)
    subscription = Subscription(account, stream, shard, consumer, tick=tick, now_ms=now_ms)
    consumer.subscriptions[shard.id] = subscription
    return subscription


def _in_use(stream: Stream, shard: ShardLog, consumer: Consumer) -> Refusal:
    return Refusal(
        "ResourceInUseException",
        "Another active subscription exists for this consumer: "
        f"{ACCOUNT_ID}:{stream.name}:{shard.id}:{consumer.name}",
    )
