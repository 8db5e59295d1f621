"""How much one batch may hold, and of each shard."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

RECORDS_PER_SECOND: Final = 1_000
BYTES_PER_SECOND: Final = 1024 * 1024
"""What a shard takes at most: a window of time bounds the records in it, and their bytes."""

BURST_SECONDS: Final = 1.0
"""A shard that was idle takes so much more at once."""

_SMALLEST_SHARE: Final = 1_000
"""A lagging shard gets at least this many records in a batch, and waits its turn otherwise."""

INLINE_BYTES: Final = 900_000
"""How much of one shard may travel with a task: Spark warns of tasks above 1,000 KiB. A full shard
takes as much in a second."""

_INLINE_BYTES_OF_ALL: Final = 8_000_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """What limits the next range of a shard, and what is known of the shard."""

    now: datetime
    """The service's time, or a little less."""
    finds_times: bool
    closed: bool
    """A listing shows the shard closed."""
    max_records: int | None = None
    max_bytes: int | None = None
    until: datetime | None = None
    inline_bytes: int = 0
    """How much of the range may travel with the task; 0: nothing need."""

    @property
    def window(self) -> timedelta | None:
        """How long a range may be in time, so that it cannot exceed the limits; None: any.

        It is 0 where a burst alone may exceed them: then records are counted.
        """
        seconds = [
            max(0.0, (limit - 1) / rate - BURST_SECONDS)
            for limit, rate in (
                (self.max_records, RECORDS_PER_SECOND),
                (self.max_bytes, BYTES_PER_SECOND),
            )
            if limit is not None
        ]
        return timedelta(seconds=min(seconds)) if seconds else None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user asked for."""

    finds_times: bool
    """The service opens times; otherwise planning reads forward."""
    fail_on_data_loss: bool = True
    max_bytes: int | None = None
    """Of one batch."""
    max_records_per_shard: int | None = None
    min_records: int = 0
    """Fewer than this wait for more, for at most `max_delay_seconds`."""
    max_delay_seconds: float = 60.0

    def bounds(
        self,
        *,
        now: datetime,
        closed: bool,
        until: datetime | None,
        shards: int,
        max_records: int | None,
    ) -> Bounds:
        """Return the bounds of one shard's next range; `max_records` None: everything there is."""
        unlimited = max_records is None
        return Bounds(
            now=now,
            finds_times=self.finds_times,
            closed=closed,
            max_records=None if max_records is None else self._share(max_records, shards),
            max_bytes=None if unlimited or not self.max_bytes else self.max_bytes // max(1, shards),
            until=until,
            inline_bytes=self.inline_bytes(shards),
        )

    def inline_bytes(self, shards: int) -> int:
        """Return how much of each of so many shards may travel with the tasks."""
        return min(INLINE_BYTES, _INLINE_BYTES_OF_ALL // max(1, shards))

    def _share(self, max_records: int, shards: int) -> int:
        share = min(max_records, max(_SMALLEST_SHARE, max_records // max(1, shards)))
        return min(share, self.max_records_per_shard or share)
