"""One call to a service, retried while that may help: the only place that waits for a service."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shardline.errors import Throttled
from shardline.services.deadlines import time_left
from shardline.services.failures import read_failure
from shardline.services.log_limits import LogLimit, and_before

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardline.services.failures import Failure

logger = logging.getLogger(__name__)

_SHORTEST_ATTEMPT_SECONDS: Final = 2.0
"""What each attempt gets, however little patience is left: no patience means no retries."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to retry a call, and how long to wait in between."""

    total_seconds: float = 120
    first_contact_seconds: float = 5
    """For an endpoint that was never reached: that is a typo more often than an outage."""
    first_delay_seconds: float = 0.2
    longest_delay_seconds: float = 10
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def delay_seconds(self, attempt: int) -> float:
        """Return the wait after the n-th failure, from 0: full jitter, so that readers spread."""
        return self.chance() * min(
            self.longest_delay_seconds, self.first_delay_seconds * 2.0**attempt
        )


class Calls:
    """The calls of one client about one stream: throttling, 5xx and cut answers are retried."""

    def __init__(self, client: Any, subject: str, patience: Patience) -> None:
        self._client = client
        self._subject = subject
        self._patience = patience
        self._reached = False
        self._closed = False
        self._log_limit = LogLimit()

    def call(
        self, operation: str, *, retry_throttled: bool = True, **parameters: Any
    ) -> dict[str, Any]:
        """Call, and return botocore's answer. Raises a `ShardlineError` when refused for good.

        With `retry_throttled=False` the first `Throttled` is raised, for a caller that knows when
        its quota allows the next call.
        """
        patience = self._patience
        started = patience.clock()
        attempt = 0
        while True:
            left = patience.total_seconds - (patience.clock() - started)
            try:
                with time_left(max(left, _SHORTEST_ATTEMPT_SECONDS)):
                    answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
            except Exception as error:
                failure = read_failure(error, self._subject, self._client.meta.endpoint_url)
                self._reached = self._reached or not failure.no_contact
                throttled = isinstance(failure.error, Throttled)
                if self._closed or not failure.passing or (throttled and not retry_throttled):
                    raise failure.error from error
                spent = patience.clock() - started
                delay = patience.delay_seconds(attempt)
                left = self._budget_seconds(failure) - spent
                if delay > left:
                    gave_up = f"{failure.error}; gave up after {spent:.0f} s"
                    raise type(failure.error)(gave_up) from error
                self._log(failure, parameters.get("ShardId"), delay, left)
                patience.sleep(delay)
                attempt += 1
            else:
                self._reached = True
                return answer

    def close(self) -> None:
        """Close the connections. A call that another thread is in is not retried."""
        self._closed = True
        self._client.close()

    def _budget_seconds(self, failure: Failure) -> float:
        patience = self._patience
        if failure.no_contact and not self._reached:
            return min(patience.total_seconds, patience.first_contact_seconds)
        return patience.total_seconds

    def _log(self, failure: Failure, shard_id: str | None, delay: float, left: float) -> None:
        """Log one line a minute for each shard, and one for the calls that name no shard."""
        held_back = self._log_limit.admit(shard_id, self._patience.clock())
        if held_back is None:
            return
        logger.warning(
            "%s; trying again in %.1f s, for at most %.0f s more%s",
            failure.error,
            delay,
            left,
            and_before(held_back),
        )
