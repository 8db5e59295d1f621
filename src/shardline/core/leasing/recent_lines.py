"""The last lines about what a `LeaseState` did, for the message of a lost lease."""

from __future__ import annotations

from collections import deque
from typing import Final

_MOST_LINES: Final = 60


class RecentLines:
    """The last lines, each with its time and its worker."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def write(self, now: float, text: str) -> None:
        """Add a line."""
        self._lines.append(f"{now:9.2f} {self._owner}: {text}")

    def lines(self, shard_id: str = "") -> str:
        """Return the last lines; of one shard if it is named."""
        return "\n".join(line for line in self._lines if shard_id in line)
