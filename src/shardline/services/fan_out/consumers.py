"""The registered consumers of a stream: found, registered, deregistered, listed."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from shardline.errors import ConfigurationError, ServiceError, StreamNotFound, Throttled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardline.services.addresses import Address
    from shardline.services.calls import Calls
    from shardline.services.port import StreamDescription

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_ACTIVE_SECONDS: Final = 120.0
_ASK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class RegisteredConsumer:
    """One registered consumer, as the service describes it."""

    name: str
    arn: str
    status: str
    """CREATING, ACTIVE or DELETING."""
    created_at: datetime

    @property
    def active(self) -> bool:
        """Whether it can subscribe."""
        return self.status == "ACTIVE"


def check_consumer_name(name: str) -> None:
    """Raise a `ConfigurationError` for what cannot be the name of a consumer."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not the name of a fan-out consumer: pass up to 128 letters, digits "
            "and _ . -"
        )


class StreamConsumers:
    """The consumers of one stream. `describe` describes the stream, for its ARN."""

    def __init__(
        self,
        calls: Calls,
        address: Address,
        describe: Callable[[], StreamDescription],
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = calls
        self._address = address
        self._describe = describe
        self._stream_arn = address.stream_arn
        self._sleep = sleep
        self._clock = clock

    def find(self, name: str) -> RegisteredConsumer | None:
        """Return the consumer of this name, or None if there is none."""
        try:
            answer = self._calls.call(
                "describe_stream_consumer", StreamARN=self._arn(), ConsumerName=name
            )
        except StreamNotFound:
            self._describe()  # raises if it is the stream that is not there
            return None
        return _consumer(answer["ConsumerDescription"])

    def list(self) -> Iterator[RegisteredConsumer]:
        """Yield every consumer of the stream."""
        page: dict[str, Any] = {}
        while True:
            answer = self._calls.call("list_stream_consumers", StreamARN=self._arn(), **page)
            yield from map(_consumer, answer["Consumers"])
            if not answer.get("NextToken"):
                return
            page = {"NextToken": answer["NextToken"]}

    def ensure(self, name: str) -> bool:
        """Register a consumer unless it is there, and wait until it is ACTIVE.

        Return true if it was registered now; a line in the log says that it costs money.
        """
        check_consumer_name(name)
        registered = self.find(name) is None and self._register(name)
        ends_at = self._clock() + _ACTIVE_SECONDS
        while (found := self.find(name)) is None or not found.active:
            if self._clock() > ends_at:
                status = "not listed" if found is None else found.status
                raise ServiceError(
                    f"{self._address}: the fan-out consumer {name!r} is still {status}: "
                    "try again, or choose another name"
                )
            self._sleep(_ASK_SECONDS)
        return registered

    def deregister(self, name: str) -> bool:
        """Deregister a consumer; return false if there is none of this name."""
        if self.find(name) is None:
            return False
        self._calls.call("deregister_stream_consumer", StreamARN=self._arn(), ConsumerName=name)
        return True

    def _register(self, name: str) -> bool:
        """Register a consumer; return false if another process has just done it."""
        try:
            self._calls.call(
                "register_stream_consumer",
                retry_throttled=False,
                StreamARN=self._arn(),
                ConsumerName=name,
            )
        except Throttled as error:
            raise ServiceError(
                f"{error}: a stream has at most 20 fan-out consumers, and five that are being "
                f"registered: shardline consumers list {self._address}"
            ) from error
        except ServiceError:
            if self.find(name) is None:
                raise
            return False
        logger.warning(
            "%s: registered the fan-out consumer %r, which costs money for each shard and hour and "
            "each GB until: shardline consumers deregister %s %s",
            self._address,
            name,
            self._address,
            name,
        )
        return True

    def _arn(self) -> str:
        if self._stream_arn is None:
            self._stream_arn = self._describe().arn
        return self._stream_arn


def _consumer(members: dict[str, Any]) -> RegisteredConsumer:
    created: datetime = members["ConsumerCreationTimestamp"]
    return RegisteredConsumer(
        members["ConsumerName"],
        members["ConsumerARN"],
        members["ConsumerStatus"],
        created.astimezone(UTC),
    )
