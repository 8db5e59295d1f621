"""When each shard may be asked about next, and what is under way."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from shardline.core.planning.queries import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shardline.core.planning.queries import Query
    from shardline.core.planning.tips import Tip

POLL_SECONDS: Final = 0.25
"""How often a shard is read near its tip: it gives five reads a second to all its readers."""

_TOGETHER_SECONDS: Final = 0.03
"""Calls that are due within this time are made together, so that a batch holds all shards."""

REFUSED_SECONDS: Final = 0.5
"""How long a shard is not asked about after it was not found, or its position was refused."""

SILENT_POLL_SECONDS: Final = 0.1
"""How often a shard is read that gives empty pages, where the service never names its tip and
somebody waits for it."""

_POLLS_PER_SECOND: Final = 200
"""Of all shards together: with more of them each is read less often."""

_PREPARE_SECONDS: Final = 1.0
"""How often a shard is asked about while a batch runs. If a task reads the shard, the quota is for
the task; at a tip, what is read when the batch is done is newer."""

_DEBT_SECONDS: Final = 5.0
"""How often a shard is asked about that a task reads and of which all else is planned: for so long
a whole page may use up its quota."""

_BOOKMARK_SECONDS: Final = 0.4
"""A bookmark is replaced when it is older than this, so that ends lie near the tip."""

_FAR_SECONDS: Final = 0.3
"""How long a plan waits for the end of a range that lies far behind."""

_SEARCH_SECONDS: Final = 3.0
"""The same while the end is being searched in a shard that is quiet now: once the executors read
whole pages there, its quota is used up for seconds, and the search is refused."""

_NEVER: Final = float("-inf")


class Schedule:
    """One call about a shard at a time, each when it is due. `now` is seconds on a steady clock."""

    def __init__(self) -> None:
        self._under_way: set[object] = set()
        self._answered_at: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        self._waiting: dict[str, float] = {}

    def begin(self, key: object) -> bool:
        """Record that a call is made about something; false if one is under way already."""
        if key in self._under_way:
            return False
        self._under_way.add(key)
        return True

    def end(self, key: object, now: float) -> None:
        """Record that a call was answered; with a later `now`, that the next one has to wait."""
        self._under_way.discard(key)
        if isinstance(key, str):
            self._answered_at[key] = now

    def is_under_way(self, key: object) -> bool:
        """Return true if a call about something is not answered yet."""
        return key in self._under_way

    def of(self, shard_ids: Iterable[str]) -> list[str]:
        """Return those shards about which a call is under way."""
        return [shard_id for shard_id in shard_ids if shard_id in self._under_way]

    def postpone(self, shard_id: str, delay_seconds: float, now: float) -> bool:
        """Return true if a call must wait until so long after the last answer; it is then due."""
        due = self._answered_at.get(shard_id, _NEVER) + delay_seconds
        if due <= now + _TOGETHER_SECONDS:
            return False
        if self._waiting.get(shard_id) != due:
            self._waiting[shard_id] = due
            heapq.heappush(self._due, (due, shard_id))
        return True

    def take_due(self, now: float) -> list[str]:
        """Return the shards whose calls were postponed until now."""
        due: list[str] = []
        while self._due and self._due[0][0] <= now + _TOGETHER_SECONDS:
            at, shard_id = heapq.heappop(self._due)
            if self._waiting.get(shard_id) == at:
                del self._waiting[shard_id]
                due.append(shard_id)
        return due

    @property
    def next_due(self) -> float | None:
        """When the next postponed call is due."""
        return self._due[0][0] if self._due else None


def query_delay(
    tip: Tip, query: Query, *, runs: bool, is_read: bool, bookmark: bool, shards: int
) -> float:
    """Return how long after the last answer to send a query, beyond what the quota asks for.

    `runs` means that a batch runs; `is_read`, that a task of it reads the shard now; `bookmark`,
    that one is kept of it.
    """
    polls = max(POLL_SECONDS, shards / _POLLS_PER_SECOND)
    match query.kind:
        case Kind.FORWARD if is_read and tip.at_tip:
            return _DEBT_SECONDS
        case Kind.FORWARD | Kind.TIME if is_read:
            return _PREPARE_SECONDS
        case Kind.FORWARD if tip.at_tip and runs:
            return max(_PREPARE_SECONDS, polls)
        case Kind.FORWARD if tip.search.silent_since is not None and query.until is not None:
            return SILENT_POLL_SECONDS
        case Kind.FORWARD if tip.at_tip or tip.search.silent_since is not None:
            return polls
        case Kind.SET_BOOKMARK if bookmark:
            return _BOOKMARK_SECONDS
    return 0.0


def wait_seconds(tip: Tip, service_time: datetime) -> float:
    """Return how long after Spark's question a plan waits for the answer about a shard."""
    if tip.is_settled(service_time):
        return 0.0
    return _SEARCH_SECONDS if tip.search.is_bounded else _FAR_SECONDS
