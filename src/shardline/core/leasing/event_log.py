"""A bounded log of what a `LeaseState` handled, to be read by people and replayed by tests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from shardline.core.leasing.events import RowsRead, RowsScanned, ShardsListed

if TYPE_CHECKING:
    from shardline.core.leasing.events import Event

_MOST_WEIGHT: Final = 4_000
"""About ten minutes of a quiet worker, in less than a megabyte."""
_MOST_LINES: Final = 60
_HEAVY: Final = (RowsRead, RowsScanned, ShardsListed)


class Entry(NamedTuple):
    """One event, and when it was handled."""

    event: Event
    now: float
    weight: int


class EventLog:
    """The last events, as many as fit; and the last lines written about what they did."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._entries: deque[tuple[Event, float, int]] = deque()
        self._weight = 0
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self.complete = True
        """True as long as no event was dropped: the log replays to the same state."""

    def add(self, event: Event, now: float) -> None:
        """Record an event. Old ones are dropped when the log is full."""
        weight = _weight(event) if isinstance(event, _HEAVY) else 1
        self._entries.append((event, now, weight))
        self._weight += weight
        while self._weight > _MOST_WEIGHT and len(self._entries) > 1:
            self._weight -= self._entries.popleft()[2]
            self.complete = False

    def write(self, now: float, text: str) -> None:
        """Record a line for people."""
        self._lines.append(f"{now:9.2f} {self._owner}: {text}")

    def entries(self) -> tuple[Entry, ...]:
        """Return the events that are kept, the oldest first."""
        return tuple(Entry(*entry) for entry in self._entries)

    def lines(self, shard_id: str = "") -> str:
        """Return the last lines; of one shard if it is named."""
        return "\n".join(line for line in self._lines if shard_id in line)


def _weight(event: RowsRead | RowsScanned | ShardsListed) -> int:
    return 1 + len(event.shards if isinstance(event, ShardsListed) else event.rows)
