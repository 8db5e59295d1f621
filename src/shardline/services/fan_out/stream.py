"""A stream of Kinesis as a `PushService`: its shards can be subscribed to."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from shardline.errors import ConfigurationError, ServiceError, ShardlineError, StreamNotFound
from shardline.services.calls import Calls, Patience
from shardline.services.clock import boot_seconds
from shardline.services.deadlines import time_left
from shardline.services.failures import read_failure
from shardline.services.fan_out.consumers import StreamConsumers
from shardline.services.fan_out.push import body_in
from shardline.services.fan_out.subscription import ShardSubscription
from shardline.services.iterators import iterator_parameters
from shardline.services.kinesis import KinesisStream
from shardline.services.log_limits import LogLimit
from shardline.services.service_clock import ServiceClock

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.positions import Position
    from shardline.services.addresses import Address
    from shardline.services.fan_out.port import Subscription

logger = logging.getLogger(__name__)

_SUBSCRIBE_SECONDS: Final = 10.0
_REFUSED_SECONDS: Final = 4.0
"""How long the answer that there is no such consumer is believed, by all shards of a worker."""


class FanOutStream(KinesisStream):
    """One stream of Kinesis whose shards are subscribed to under the name of a consumer."""

    def __init__(
        self,
        client: Any,
        push_client: Any,
        address: Address,
        consumer_name: str,
        patience: Patience | None = None,
        wire: str = "json",
    ) -> None:
        super().__init__(client, address, patience, wire=wire)
        self._push_client = push_client
        self._consumer_name = consumer_name
        once = Calls(client, str(address), Patience(total_seconds=0))
        self._consumers = StreamConsumers(once, address, self.describe)
        self._consumer_arn: str | None = None
        self._refusal: ShardlineError | None = None
        self._refused_at = float("-inf")
        self._asking = threading.Lock()
        self._push_clock = ServiceClock()
        self._log_limit = LogLimit()
        self._subscriptions: WeakSet[ShardSubscription] = WeakSet()

    def subscribe(self, shard_id: str, position: Position) -> Subscription:
        """Start a subscription to a shard. Nothing is retried: a cursor polls meanwhile."""
        subject = f"{self._address}/{shard_id}"
        start = iterator_parameters(shard_id, position, "SequenceNumber")
        start["Type"] = start.pop("ShardIteratorType")
        arn = self._arn()
        try:
            with time_left(_SUBSCRIBE_SECONDS):
                response = self._push_client.subscribe_to_shard(
                    ConsumerARN=arn, ShardId=shard_id, StartingPosition=start
                )
        except Exception as error:
            refusal = read_failure(error, subject, self._push_client.meta.endpoint_url).error
            if isinstance(refusal, StreamNotFound):
                self._consumer_arn = None  # it was deregistered, and perhaps registered again
            raise refusal from error
        self._push_clock.time_of(response)
        subscription = ShardSubscription(subject, body_in(response), self._service_time_at)
        self._subscriptions.add(subscription)
        return subscription

    def report_polling(self, shard_id: str, reason: str, seconds: float) -> None:
        """Log that a shard is polled for now, at most once a minute for all shards."""
        held_back = self._log_limit.admit("polling", boot_seconds())
        if held_back is not None:
            others = f" ({held_back} more such lines in the minute before)" if held_back else ""
            logger.warning(
                "%s: no subscription as %r, polling for the next %.0f s: %s%s",
                shard_id,
                self._consumer_name,
                seconds,
                reason,
                others,
            )

    def close(self) -> None:
        super().close()
        for subscription in list(self._subscriptions):
            subscription.close()
        self._push_client.close()

    def _arn(self) -> str:
        """Return the ARN of the consumer; one shard asks for all, and a "no" holds a moment."""
        with self._asking:
            if self._consumer_arn is None:
                if self._refusal and boot_seconds() - self._refused_at < _REFUSED_SECONDS:
                    raise self._refusal
                try:
                    self._consumer_arn = self._find_arn()
                except ShardlineError as error:
                    self._refusal, self._refused_at = error, boot_seconds()
                    raise
            return self._consumer_arn

    def _find_arn(self) -> str:
        name = self._consumer_name
        found = self._consumers.find(name)
        if found is None:
            register = f"shardline consumers register {self._address} {name}"
            raise ConfigurationError(
                f"{self._address} has no fan-out consumer {name!r}: {register}"
            )
        if not found.active:
            raise ServiceError(f"{self._address}: the fan-out consumer {name!r} is {found.status}")
        return found.arn

    def _service_time_at(self, seconds: float) -> datetime:
        """Return the service's time at a time of our clock, which is past."""
        return self._push_clock.now() - timedelta(seconds=boot_seconds() - seconds)
