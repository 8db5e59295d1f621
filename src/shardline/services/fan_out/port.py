"""What a cursor needs of a service that pushes: subscriptions, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from shardline.errors import ServiceError
from shardline.services.port import StreamService

if TYPE_CHECKING:
    from shardline.core.positions import Position
    from shardline.services.port import Page


class SubscriptionEnded(ServiceError):
    """The subscription is over, as each is after five minutes: subscribe again."""


class SubscriptionBroken(ServiceError):
    """The connection was cut, garbled or silent: subscribe again after the last event."""


class SubscriptionTaken(ServiceError):
    """The service ended it: another reader subscribed under this name, or the name is gone."""


class Subscription(Protocol):
    """The events of one shard as they are pushed. Not for use by several threads at once."""

    def next(self, wait_seconds: float) -> Page | None:
        """Return the next event as a page, or None if none came within this time.

        `Page.next_iterator` is the number after which another subscription continues, also where
        the page is empty; None at the end of a closed shard. `Page.service_time` is a time before
        the service made the event. Raises one of the errors of this file.
        """

    def close(self) -> None:
        """Close the connection. The service may take some seconds to notice."""


@runtime_checkable
class PushService(StreamService, Protocol):
    """A stream that can be polled, and that pushes too."""

    def subscribe(self, shard_id: str, position: Position) -> Subscription:
        """Start a subscription, or raise a `ShardlineError` that says why there is none."""

    def report_polling(self, shard_id: str, reason: str, seconds: float) -> None:
        """Log that a shard is polled for now, at most once a minute for all shards."""
