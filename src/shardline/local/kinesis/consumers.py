"""Registered consumers of enhanced fan-out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from shardline.local.kinesis.tokens import ConsumerPage, parse_page, token_text
from shardline.local.refusals import Refusal
from shardline.local.settings import ACCOUNT_ID

if TYPE_CHECKING:
    from shardline.local.kinesis.account import Account
    from shardline.local.kinesis.streams import Stream
    from shardline.local.kinesis.subscriptions import Subscription

MAX_CONSUMERS: Final = 20
MAX_CREATING: Final = 5
_ARN: Final = re.compile(r"(arn:[^/]*:stream/[^/]+)/consumer/([^/:]+):(\d+)")


@dataclass
class Consumer:
    """One registered consumer of a stream."""

    name: str
    arn: str
    created_ms: int
    active_ms: int
    deleted_ms: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """The newest subscription of each shard, ended ones included."""

    def status(self, now_ms: int) -> Literal["CREATING", "ACTIVE", "DELETING"]:
        """Return the status at a time."""
        if self.deleted_ms is not None:
            return "DELETING"
        return "ACTIVE" if self.active_ms <= now_ms else "CREATING"


def register_consumer(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer RegisterStreamConsumer."""
    stream = account.find_requested(request, now_ms)
    stream.require_active()
    name: str = request["ConsumerName"]
    consumers = existing_consumers(stream, now_ms)
    if any(consumer.name == name for consumer in consumers):
        raise Refusal(
            "ResourceInUseException",
            f"Consumer {name} under stream {stream.name} already exists for account {ACCOUNT_ID}.",
        )
    if len(consumers) >= MAX_CONSUMERS:
        raise Refusal(
            "LimitExceededException",
            f"This request would exceed the limit of {MAX_CONSUMERS} consumers for stream "
            f"{stream.name} under account {ACCOUNT_ID}.",
        )
    creating = sum(consumer.status(now_ms) == "CREATING" for consumer in consumers)
    if creating >= MAX_CREATING:
        raise Refusal(
            "LimitExceededException",
            f"No more than {MAX_CREATING} consumers can be in status CREATING at the same time.",
        )
    # The ARN holds whole seconds: a consumer that is registered again needs another one.
    arn_seconds = max(now_ms // 1000, stream.consumer_seconds.get(name, 0) + 1)
    stream.consumer_seconds[name] = arn_seconds
    consumer = Consumer(
        name,
        f"{stream.arn}/consumer/{name}:{arn_seconds}",
        now_ms,
        now_ms + account.settings.status_delay_ms,
        tags=dict(request.get("Tags", {})),
    )
    stream.consumers[consumer.arn] = consumer
    return {"Consumer": _summary(consumer, now_ms)}


def deregister_consumer(account: Account, request: dict[str, Any], now_ms: int) -> None:
    """Answer DeregisterStreamConsumer. Its subscriptions end."""
    _, consumer = find_consumer(account, request, now_ms)
    if consumer.deleted_ms is None:
        consumer.deleted_ms = now_ms + account.settings.status_delay_ms


def describe_consumer(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer DescribeStreamConsumer."""
    stream, consumer = find_consumer(account, request, now_ms)
    return {"ConsumerDescription": _summary(consumer, now_ms) | {"StreamARN": stream.arn}}


def list_consumers(account: Account, request: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Answer ListStreamConsumers."""
    stream = account.find_requested(request, now_ms)
    limit: int = request.get("MaxResults", 100)
    after = ""
    if "NextToken" in request:
        page = parse_page(ConsumerPage, request["NextToken"], now_ms)
        if (page.stream, page.created_ms) != (stream.name, stream.created_ms):
            raise Refusal("InvalidArgumentException", "NextToken is of another stream.")
        after = page.after_name
    consumers = sorted(existing_consumers(stream, now_ms), key=lambda each: each.name)
    consumers = [consumer for consumer in consumers if consumer.name > after]
    answer: dict[str, Any] = {
        "Consumers": [_summary(consumer, now_ms) for consumer in consumers[:limit]]
    }
    if len(consumers) > limit:
        name = consumers[limit - 1].name
        answer["NextToken"] = token_text(ConsumerPage(stream.name, stream.created_ms, name, now_ms))
    return answer


def existing_consumers(stream: Stream, now_ms: int) -> list[Consumer]:
    """Return the consumers of a stream that are not deleted."""
    for arn, consumer in list(stream.consumers.items()):
        if consumer.deleted_ms is not None and consumer.deleted_ms <= now_ms:
            del stream.consumers[arn]
    return list(stream.consumers.values())


def find_consumer(
    account: Account, request: dict[str, Any], now_ms: int
) -> tuple[Stream, Consumer]:
    """Return the consumer given by ConsumerARN, or StreamARN and ConsumerName, or refuse."""
    arn = request.get("ConsumerARN")
    if arn is None:
        if "StreamARN" not in request or "ConsumerName" not in request:
            raise Refusal(
                "InvalidArgumentException",
                "Either ConsumerARN, or StreamARN and ConsumerName should be provided.",
            )
        stream = account.find_requested(request, now_ms)
        wanted = request["ConsumerName"]
    else:
        match = _ARN.fullmatch(arn)
        if match is None:
            raise Refusal("InvalidArgumentException", f"Invalid ConsumerARN {arn[:140]}.")
        stream = account.find_requested({"StreamARN": match[1]}, now_ms)
        wanted = arn
    for consumer in existing_consumers(stream, now_ms):
        if wanted in (consumer.arn, consumer.name if arn is None else None):
            return stream, consumer
    raise Refusal(
        "ResourceNotFoundException",
        f"Consumer {wanted} under stream {stream.name} not found for account {ACCOUNT_ID}.",
    )


def _summary(consumer: Consumer, now_ms: int) -> dict[str, Any]:
    return {
        "ConsumerName": consumer.name,
        "ConsumerARN": consumer.arn,
        "ConsumerStatus": consumer.status(now_ms),
        "ConsumerCreationTimestamp": consumer.created_ms / 1000,
    }
