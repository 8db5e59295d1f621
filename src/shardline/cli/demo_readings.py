"""How much was read, and how fast of late: counted from what the workers wrote down."""

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.cli.demo_workers import Line

_WINDOW_SECONDS: Final = 4.0
"""Batches come about once a second: over less than some of them, a rate would jump."""


class Readings:
    """Counts different records, and records per second of each shard."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._lately: deque[tuple[float, str, int]] = deque()

    @property
    def count(self) -> int:
        """How many different records were read."""
        return len(self._seen)

    def add(self, lines: "Iterable[Line]", now: float) -> None:
        """Take in what was written down since the last time."""
        for line in lines:
            self._seen.update((line.shard_id, record.sequence) for record in line.records)
            if line.records:
                self._lately.append((now, line.shard_id, len(line.records)))

    def rates(self, now: float) -> dict[str, float]:
        """Return the records per second of each shard that was read of late."""
        while self._lately and self._lately[0][0] < now - _WINDOW_SECONDS:
            self._lately.popleft()
        counts: dict[str, int] = {}
        for _, shard_id, count in self._lately:
            counts[shard_id] = counts.get(shard_id, 0) + count
        return {shard_id: count / _WINDOW_SECONDS for shard_id, count in counts.items()}
