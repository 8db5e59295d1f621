"""How much was read, and how fast of late: counted from what the workers wrote down."""

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardline.cli.demo.workers import Line
    from shardline.core.shards import Shard

_WINDOW_SECONDS: Final = 4.0
"""Batches come about once a second: over less than some of them, a rate would jump."""


class ReadCounts:
    """Counts different records, and records per second of each shard. For several threads."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._lately: deque[tuple[float, str, int]] = deque()
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """How many different records were read."""
        return len(self._seen)

    def add(self, lines: "Iterable[Line]", now: float) -> None:
        """Take in what was written down since the last time."""
        with self._lock:
            for line in lines:
                self._seen.update((line.shard_id, record.sequence) for record in line.records)
                if line.records:
                    self._lately.append((now, line.shard_id, len(line.records)))

    def rates(self, now: float) -> dict[str, float]:
        """Return the records per second of each shard that was read of late."""
        counts: dict[str, int] = {}
        with self._lock:
            while self._lately and self._lately[0][0] < now - _WINDOW_SECONDS:
                self._lately.popleft()
            for _, shard_id, count in self._lately:
                counts[shard_id] = counts.get(shard_id, 0) + count
        return {shard_id: count / _WINDOW_SECONDS for shard_id, count in counts.items()}

    def count(self, shards: "Iterable[Shard]", now: float) -> dict[str, float]:
        """Return the same for the page, which asks by its own clock."""
        del now
        rates = self.rates(time.monotonic())
        return {shard.id: rates.get(shard.id, 0.0) for shard in shards if not shard.closed}
