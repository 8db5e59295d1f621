"""When a worker lists the stream: rarely as a whole, and not every worker as often.

A service gives all callers together a small number of listing calls (ten a second for a DynamoDB
stream, a hundred shards a page). So the worker on duty lists the whole stream now and then, the
others as much less often as there are more of them; a large or slow listing is repeated less
often. When a shard ends, its owner lists at once, and so finds its children within seconds.
"""

from __future__ import annotations

from typing import Final

LIST_SECONDS: Final = 10.0
RELIST_SECONDS: Final = 1.0
DESCRIBE_SECONDS: Final = 60.0
_SHARDS_PER_SECOND: Final = 100
"""A tenth of what DescribeStream gives all callers: one page a second."""
_MOST_OF_THE_TIME: Final = 20
"""A listing that takes a second is repeated after this many seconds at the earliest."""
_LONGEST_RELIST_SECONDS: Final = 10.0


class ListingSchedule:
    """When this worker listed and described the stream last, and when it does so again."""

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._answered_at = float("-inf")
        self._shards = 0
        self._relists = 0
        self._described_at = float("-inf")

    def listed(self, asked_at: float, now: float, shards: int) -> None:
        """Record a whole listing."""
        self._asked_at, self._answered_at, self._shards = asked_at, now, shards

    def stream_replaced(self) -> None:
        """Record that the stream was replaced: nothing of the new one is listed yet."""
        self._asked_at = self._answered_at = float("-inf")
        self._shards = self._relists = 0

    def described(self, now: float) -> None:
        """Record a description of the stream."""
        self._described_at = now

    def wanted(self, *, wanted: bool) -> None:
        """Record whether something waits for a new listing after the last one."""
        self._relists = self._relists + 1 if wanted else 0

    def due_at(self, *, wanted: bool, on_duty: bool, workers: int) -> float:
        """Return when to list again. `wanted`: a shard ended here, or the listing has a hole."""
        if wanted:
            pause = RELIST_SECONDS * 2.0 ** min(self._relists, 4)
            return self._asked_at + min(pause, _LONGEST_RELIST_SECONDS)
        took_seconds = self._answered_at - self._asked_at if self._shards else 0.0
        interval = max(
            LIST_SECONDS,
            self._shards / _SHARDS_PER_SECOND,
            took_seconds * _MOST_OF_THE_TIME,
        )
        return self._asked_at + interval * (1 if on_duty else workers)

    def describe_at(self, *, on_duty: bool, workers: int) -> float:
        """Return when to describe the stream again."""
        return self._described_at + DESCRIBE_SECONDS * (1 if on_duty else workers)
