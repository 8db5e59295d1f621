"""The buffer of one shard: records read and not yet delivered, and when to read more."""

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
"""DynamoDB does not report the tip, and may return empty pages before the next record."""

_NO_TIMES: Final[NDArray[np.int64]] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How often a shard is read, how much at once, and how long other shards wait for it."""

    poll_seconds: float = 0.25
    """Between reads of a shard that is at its tip; the service allows five a second."""
    patience_seconds: float = 2.0
    page_size: int = 10_000


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The result of one read of a shard."""

    records: list[Any]
    times: NDArray[np.int64]
    ended: bool
    at_tip: bool
    service_time: datetime
    gap: Gap | None


class ShardBuffer:
    """Reads one shard page by page and holds what is not delivered yet.

    `fetch` may run in another thread, one call at a time; everything else belongs to one thread.
    """

    def __init__(
        self,
        service: StreamService,
        shard_id: str,
        place: Place,
        retention: timedelta,
        settings: ReadSettings,
        now: float,
    ) -> None:
        self.shard_id: Final = shard_id
        self.place: Final = place
        self.pending: Future[FetchedPage] | None = None
        self.ended = False
        self.renewed_at = now
        """When the iterator was last renewed."""
        self.service_time = datetime.min.replace(tzinfo=UTC)
        """The service's time in the answer to the last read."""
        self.tip_time: datetime | None = None
        """The service's time at which everything in the shard had been read."""
        self._service = service
        self._retention = retention
        self._settings = settings
        self._cursor = ShardCursor(service, shard_id, place.position)
        self._read_as_of = place.as_of
        self._reached_tip = place.position == LATEST
        self._empty_pages = 0
        self._records: list[Any] = []
        self._times = _NO_TIMES
        self._poll_at = now
        self._waited_since: float | None = None

    # --- reading ------------------------------------------------------------------------------

    def fetch(self) -> FetchedPage:
        """Read a page. If the position has expired, return a gap and the oldest kept records."""
        position, trimmed = self._cursor.position, False
        try:
            page = self._cursor.read(self._settings.page_size)
        except PositionTrimmed:
            trimmed = True
            again = position if isinstance(position, AtTime) else TRIM_HORIZON
            self._cursor = ShardCursor(self._service, self.shard_id, again)
            page = self._cursor.read(self._settings.page_size)
        gap = None
        if self._may_be_too_late(page) and (trimmed or not self._still_kept(position)):
            gap = Gap(self.shard_id, position, self._read_as_of)
            self._read_as_of = None  # reported; what follows is a new start
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
        return FetchedPage(records, times, self._cursor.ended, at_tip, page.service_time, gap)

    def _is_at_tip(self, page: Page) -> bool:
        if self._cursor.ended:
            return False  # its children may hold records that arrived before this answer
        rows = page.records.num_rows
        self._empty_pages = 0 if rows else self._empty_pages + 1
        if page.behind_ms is not None:
            return page.behind_ms == 0 and rows < self._settings.page_size
        if self._empty_pages >= EMPTY_PAGES_TO_TIP:
            self._reached_tip = True
        return rows == 0 and self._reached_tip

    def _may_be_too_late(self, page: Page) -> bool:
        # Kinesis reads on at its horizon, without an error, when a position has expired.
        if self._read_as_of is None:
            return False
        return page.service_time - self._read_as_of >= self._retention

    def _still_kept(self, position: Position) -> bool:
        """Return true if the last record read is still kept: then so is everything after it."""
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

    # --- the buffer ---------------------------------------------------------------------------

    def add(self, page: FetchedPage, now: float) -> None:
        """Add a fetched page to the buffer."""
        self.renewed_at = now
        self.ended = page.ended
        self.service_time = page.service_time
        self.tip_time = page.service_time if page.at_tip else None
        self._poll_at = now + self._settings.poll_seconds if page.at_tip else now
        if page.records:
            if self.held_by_iterator:
                # The first record after "latest" is a lasting position: just before it.
                first = SequenceNumber(page.records[0].sequence_number)
                self.place.position = After(first, -1)
            self._records, self._times = page.records, rising(page.times)
        if page.records or page.at_tip:
            self._waited_since = None
        elif self._waited_too_long(now):
            self._poll_at = now + self._settings.poll_seconds

    def pin(self, position: Position) -> None:
        """Continue at a position that outlives the iterator."""
        self.place.position = position
        self._cursor = ShardCursor(self._service, self.shard_id, position)

    def take(self, count: int) -> list[Any]:
        """Remove and return the next records."""
        if count == len(self._records):
            taken, self._records, self._times = self._records, [], _NO_TIMES
            return taken
        taken = self._records[:count]
        self._records, self._times = self._records[count:], self._times[count:]
        return taken

    # --- when to read, and whether others wait ------------------------------------------------

    @property
    def empty(self) -> bool:
        """True if everything that was read has been taken."""
        return not self._records

    @property
    def held_by_iterator(self) -> bool:
        """True if only an iterator holds the position: "latest", and no record since."""
        return self.place.position == LATEST

    @property
    def idle(self) -> bool:
        """True if the buffer is empty and no read is under way."""
        return self.empty and self.pending is None and not self.ended

    def wants_page(self, now: float) -> bool:
        """Return true if the next page should be read now."""
        return (
            not self._records and self.pending is None and not self.ended and now >= self._poll_at
        )

    def start_waiting(self, now: float) -> float:
        """Start the time that other shards wait for this one; return the seconds left."""
        if self._waited_since is None:
            self._waited_since = now
        return max(0.0, self._waited_since + self._settings.patience_seconds - now)

    def backlog(self, now: float) -> Backlog:
        """Return the records to merge, and whether other shards must wait for more of them."""
        at_tip = self.tip_time is not None and now < self._poll_at
        return Backlog(
            self.place.clock, self._times, self.ended or not (at_tip or self._waited_too_long(now))
        )

    def _waited_too_long(self, now: float) -> bool:
        since = self._waited_since
        return since is not None and now - since >= self._settings.patience_seconds
