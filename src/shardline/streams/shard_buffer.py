"""One shard as a stream reads it: what was read and not delivered, and whether to wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shardline.core.merging import Backlog, rising
from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import PositionTrimmed
from shardline.services.cursor import ShardCursor
from shardline.services.records import records_of, times_of
from shardline.streams.gaps import Gap

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from shardline.services.port import Page, StreamService
    from shardline.streams.ledger import Place

EMPTY_PAGES_TO_TIP: Final = 5
"""DynamoDB does not say where the tip is, and may give some empty pages before the next record."""

_NOTHING: Final[NDArray[np.int64]] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to ask, how much, and how long others wait for the answer."""

    poll_seconds: float = 0.25
    """Between reads of a shard that is at its tip: the service allows five a second."""
    patience_seconds: float = 2.0
    page_size: int = 10_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one read of a shard gave."""

    records: list[Any]
    times: NDArray[np.int64]
    ended: bool
    at_tip: bool
    service_time: datetime
    gap: Gap | None


class Reader:
    """The records of one shard, a page at a time. `fetch` may run in a thread, once at a time."""

    def __init__(
        self,
        service: StreamService,
        shard_id: str,
        place: Place,
        retention: timedelta,
        pace: Pace,
        now: float,
    ) -> None:
        self.shard_id: Final = shard_id
        self.place: Final = place
        self.pending: Future[Fetched] | None = None
        self.ended = False
        self.touched_at = now
        """When its iterator was last renewed."""
        self.service_time = datetime.min.replace(tzinfo=UTC)
        """The service's time of the last page."""
        self.tip_time: datetime | None = None
        """The service's time at which everything in the shard had been read."""
        self._service = service
        self._retention = retention
        self._pace = pace
        self._cursor = ShardCursor(service, shard_id, place.position)
        self._read_as_of = place.as_of
        self._reached_tip = place.position == LATEST
        self._empty_pages = 0
        self._records: list[Any] = []
        self._times = _NOTHING
        self._poll_at = now
        self._waited_for_since: float | None = None

    # --- asking the service -------------------------------------------------------------------

    def fetch(self) -> Fetched:
        """Read a page. A position that is no longer kept gives a gap, and what is kept."""
        position, trimmed = self._cursor.position, False
        try:
            page = self._cursor.read(self._pace.page_size)
        except PositionTrimmed:
            trimmed = True
            again = position if isinstance(position, AtTime) else TRIM_HORIZON
            self._cursor = ShardCursor(self._service, self.shard_id, again)
            page = self._cursor.read(self._pace.page_size)
        gap = None
        if self._may_be_too_late(page) and (trimmed or not self._still_kept(position)):
            gap = Gap(self.shard_id, position, self._read_as_of)
            self._read_as_of = None  # met: what comes next is promised anew
        elif isinstance(position, AtTime) and self._read_as_of is None:
            self._read_as_of = max(position.time, page.service_time - self._retention)
        times = times_of(page.records)
        at_tip = self._is_at_tip(page)
        if at_tip:
            self._read_as_of = page.service_time
        elif len(times):
            last = datetime.fromtimestamp(int(times[-1]) / 1e6, UTC)
            self._read_as_of = max(last, self._read_as_of or last)
        records = records_of(self.shard_id, page.records, times)
        return Fetched(records, times, self._cursor.ended, at_tip, page.service_time, gap)

    def _is_at_tip(self, page: Page) -> bool:
        if self._cursor.ended:
            return False  # of its children, nothing before the last record is known
        rows = page.records.num_rows
        self._empty_pages = 0 if rows else self._empty_pages + 1
        if page.behind_ms is not None:
            return page.behind_ms == 0 and rows < self._pace.page_size
        if self._empty_pages >= EMPTY_PAGES_TO_TIP:
            self._reached_tip = True
        return rows == 0 and self._reached_tip

    def _may_be_too_late(self, page: Page) -> bool:
        # Kinesis goes on at its horizon, without a word, when a position has been trimmed.
        if self._read_as_of is None:
            return False
        return page.service_time - self._read_as_of >= self._retention

    def _still_kept(self, position: Position) -> bool:
        """Say whether the last record read is still there: then so is all that follows it."""
        if not isinstance(position, After):
            return False
        probe = ShardCursor(self._service, self.shard_id, After(position.sequence, -1))
        try:
            for _ in range(EMPTY_PAGES_TO_TIP):
                numbers = probe.read(1).records.column("sequenceNumber").to_pylist()
                if numbers or probe.ended:
                    return [SequenceNumber(text) for text in numbers] == [position.sequence]
        except PositionTrimmed:
            pass
        return False

    # --- what was read ------------------------------------------------------------------------

    def absorb(self, fetched: Fetched, now: float) -> None:
        """Take in a page that was fetched."""
        self.touched_at = now
        self.ended = fetched.ended
        self.service_time = fetched.service_time
        self.tip_time = fetched.service_time if fetched.at_tip else None
        self._poll_at = now + self._pace.poll_seconds if fetched.at_tip else now
        if fetched.records:
            if self.held_by_iterator:
                # Pinned at last: before the first record that came after "latest".
                first = SequenceNumber(fetched.records[0].sequence_number)
                self.place.position = After(first, -1)
            self._records, self._times = fetched.records, rising(fetched.times)
        if fetched.records or fetched.at_tip:
            self._waited_for_since = None
        elif self._waited_for_long(now):
            self._poll_at = now + self._pace.poll_seconds

    def pin(self, position: Position) -> None:
        """Read on from a position that outlives the iterator."""
        self.place.position = position
        self._cursor = ShardCursor(self._service, self.shard_id, position)

    def take(self, count: int) -> list[Any]:
        """Hand out the next records."""
        if count == len(self._records):
            taken, self._records, self._times = self._records, [], _NOTHING
            return taken
        taken = self._records[:count]
        self._records, self._times = self._records[count:], self._times[count:]
        return taken

    # --- whether to ask, and whether to wait --------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether everything that was read has been handed out."""
        return not self._records

    @property
    def held_by_iterator(self) -> bool:
        """Whether only an iterator knows the place: "latest", and no record since."""
        return self.place.position == LATEST

    @property
    def idle(self) -> bool:
        """Whether there is nothing to hand out and no read under way."""
        return self.empty and self.pending is None and not self.ended

    def wants_page(self, now: float) -> bool:
        """Say whether to read the next page now."""
        return (
            not self._records and self.pending is None and not self.ended and now >= self._poll_at
        )

    def wait_from(self, now: float) -> float:
        """Note that others wait for this shard, and return for how many seconds they still will."""
        if self._waited_for_since is None:
            self._waited_for_since = now
        return max(0.0, self._waited_for_since + self._pace.patience_seconds - now)

    def backlog(self, now: float) -> Backlog:
        """Return what there is to merge, and whether others must wait for more."""
        at_tip = self.tip_time is not None and now < self._poll_at
        return Backlog(
            self.place.clock, self._times, self.ended or not (at_tip or self._waited_for_long(now))
        )

    def _waited_for_long(self, now: float) -> bool:
        since = self._waited_for_since
        return since is not None and now - since >= self._pace.patience_seconds
