"""One call to a service, tried again while that may help: the only place that waits."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from shardline.services.failures import read_failure

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on trying, and how long to wait in between."""

    total_seconds: float = 120
    first_contact_seconds: float = 5
    """For an endpoint where nothing has ever answered: that is a typo more often than an outage."""
    first_delay_seconds: float = 0.2
    longest_delay_seconds: float = 10
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def delay_seconds(self, attempt: int) -> float:
        """Return a wait for the n-th failure, from 0: full jitter, so that readers spread out."""
        return self.chance() * min(
            self.longest_delay_seconds, self.first_delay_seconds * 2.0**attempt
        )


class Calls:
    """The calls of one client about one stream: throttling, 5xx and cut lines are waited out."""

    def __init__(self, client: Any, subject: str, patience: Patience) -> None:
        self._client = client
        self._subject = subject
        self._patience = patience
        self._answered = False
        self._closed = False

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call, and return botocore's answer. Raises a `ShardlineError` when refused for good."""
        patience = self._patience
        started = patience.clock()
        attempt = 0
        while True:
            try:
                answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
            except Exception as error:
                failure = read_failure(error, self._subject, self._client.meta.endpoint_url)
                self._answered = self._answered or not failure.nobody_there
                if self._closed or not failure.passing:
                    raise failure.error from error
                budget = patience.total_seconds
                if failure.nobody_there and not self._answered:
                    budget = min(budget, patience.first_contact_seconds)
                delay = patience.delay_seconds(attempt)
                spent = patience.clock() - started
                if spent + delay > budget:
                    gave_up = f"{failure.error}; gave up after {spent:.0f} s"
                    raise type(failure.error)(gave_up) from error
                logger.warning(
                    "%s; trying again in %.1f s, for at most %.0f s more",
                    failure.error,
                    delay,
                    budget - spent,
                )
                patience.sleep(delay)
                attempt += 1
            else:
                self._answered = True
                return answer

    def close(self) -> None:
        """Let go of connections. A call that another thread is in is not tried again."""
        self._closed = True
        self._client.close()


def service_time_of(answer: dict[str, Any]) -> datetime:
    """Return the service's clock from the Date header: whole seconds, never ahead of the truth."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    # Every HTTP server must send one; a test server that does not shares our clock.
    return parsedate_to_datetime(date) if date else datetime.now(UTC).replace(microsecond=0)
