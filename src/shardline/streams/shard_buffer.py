"""The buffer of one shard: records read and not yet delivered, and when to read more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shardline.core.gaps import Gap, gap_at, may_have_expired
from shardline.core.merging import Backlog, rising
from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import PositionTrimmed
from shardline.services.aggregation import split_aggregated
from shardline.services.cursor import ShardCursor
from shardline.services.pace import DYNAMODB_QUOTA, KINESIS_QUOTA, Quota, ShardPace
from shardline.services.records import records_of, times_of
from shardline.services.shard_readers import shard_reader
from shardline.services.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from shardline.services.port import Page, ShardReader, StreamService
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
    """The most records of one read."""
    read_ahead_bytes: int = 0
    """While fewer bytes are undelivered in all shards together, shards are read ahead."""
    quota: Quota | None = None
    """What a shard may be read at; None for what its service allows."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The result of one read of a shard."""

    records: list[Any]
    times: NDArray[np.int64]
    size_bytes: int
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
        clock: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        now = clock()
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
        quota = settings.quota or (KINESIS_QUOTA if service.finds_times else DYNAMODB_QUOTA)
        self._pace = ShardPace(quota)
        self._clock = clock
        self._pause = pause
        self._reader = self._reader_at(place.position)
        self._read_as_of = place.as_of
        self._reached_tip = place.position == LATEST
        self._empty_pages = 0
        self._records: list[Any] = []
        self._times = _NO_TIMES
        self._record_bytes = 0.0
        self._poll_at = now
        self._waited_since: float | None = None

    # --- reading ------------------------------------------------------------------------------

    def fetch(self) -> FetchedPage:
        """Read a page. If the position has expired, return a gap and the oldest kept records."""
        position, trimmed = self._reader.position, False
        try:
            page = self._read_page(self._reader, self._settings.page_size)
        except PositionTrimmed:
            trimmed = True
            again = position if isinstance(position, AtTime) else TRIM_HORIZON
            self._go_to(again)
            page = self._read_page(self._reader, self._settings.page_size)
        gap = None
        if self._may_be_too_late(page) and (trimmed or not self._still_kept(position)):
            gap = gap_at(
                self.shard_id,
                position,
                self._read_as_of or page.service_time,
                now=page.service_time,
                retention=self._retention,
                reason="the service kept them no longer when they were read",
            )
            self._read_as_of = None  # reported; what follows is a new start
        elif isinstance(position, AtTime) and self._read_as_of is None:
            self._read_as_of = max(position.time, page.service_time - self._retention)
        rows = split_aggregated(page.records, position if isinstance(position, After) else None)
        times = times_of(rows)
        at_tip = self._is_at_tip(page)
        if at_tip:
            self._read_as_of = page.service_time
        elif len(times):
            last = datetime.fromtimestamp(int(times[-1]) / 1e6, UTC)
            self._read_as_of = max(last, self._read_as_of or last)
        records = records_of(self.shard_id, rows, times)
        return FetchedPage(
            records,
            times,
            page.records.nbytes,
            self._reader.ended,
            at_tip,
            page.service_time,
            gap,
        )

    def _is_at_tip(self, page: Page) -> bool:
        if self._reader.ended:
            return False  # its children may hold records that arrived before this answer
        rows = page.records.num_rows
        self._empty_pages = 0 if rows else self._empty_pages + 1
        if page.behind_ms is not None:
            return page.behind_ms == 0
        if self._empty_pages >= EMPTY_PAGES_TO_TIP:
            self._reached_tip = True
        return rows == 0 and self._reached_tip

    def _may_be_too_late(self, page: Page) -> bool:
        # Kinesis reads on at its horizon, without an error, when a position has expired.
        return self._read_as_of is not None and may_have_expired(
            self._read_as_of, now=page.service_time, retention=self._retention
        )

    def _still_kept(self, position: Position) -> bool:
        """Return true if the last record read is still kept: then so is everything after it."""
        if not isinstance(position, After):
            return False
        at_record = After(position.sequence, -1)
        probe = ShardCursor(
            self._service, self.shard_id, at_record, pace=self._pace, clock=self._clock
        )
        try:
            for _ in range(EMPTY_PAGES_TO_TIP):
                numbers = self._read_page(probe, 1).records.column("sequenceNumber").to_pylist()
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
            self._record_bytes = page.size_bytes / len(page.records)
            if self.held_by_iterator:
                # The first record after "latest" is a lasting position: just before it.
                first = SequenceNumber(page.records[0].sequence_number)
                self.place.position = After(first, -1)
            self._records = self._records + page.records if self._records else page.records
            self._times = rising(np.concatenate((self._times, page.times)))
        if page.records or page.at_tip:
            self._waited_since = None
        elif self._waited_too_long(now):
            self._poll_at = now + self._settings.poll_seconds

    def pin(self, position: Position) -> None:
        """Continue at a position that outlives the iterator."""
        self.place.position = position
        self._go_to(position)

    def close(self) -> None:
        """Give up what the service holds for this shard's reader."""
        self._reader.close()

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
    def size_bytes(self) -> float:
        """The size of the undelivered records, approximately."""
        return len(self._records) * self._record_bytes

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
        return self.seconds_until_due(now) == 0

    def seconds_until_due(self, now: float) -> float | None:
        """Return the seconds until the next page should be read; None while it should not be."""
        if self.pending is not None or self.ended:
            return None
        return max(0.0, self._poll_at - now, self._pace.wait_seconds(now))

    @property
    def has_arrived(self) -> bool:
        """True if the read under way is over and its result can be used now.

        Bad news waits until the records before it are delivered: a gap, or that the shard is gone.
        """
        if self.pending is None or not self.pending.done():
            return False
        return self.empty or (
            self.pending.exception() is None and self.pending.result().gap is None
        )

    def start_waiting(self, now: float) -> float:
        """Start the time that other shards wait for this one; return the seconds left."""
        if self._waited_since is None:
            self._waited_since = now
        return max(0.0, self._waited_since + self._settings.patience_seconds - now)

    def backlog(self, now: float) -> Backlog:
        """Return the records to merge, and whether other shards must wait for more of them."""
        # At its tip a shard holds up nobody until its next read is due.
        at_tip = self.tip_time is not None and (self.seconds_until_due(now) or 0) > 0
        return Backlog(
            self.place.clock, self._times, self.ended or not (at_tip or self._waited_too_long(now))
        )

    def _read_page(self, reader: ShardReader, max_records: int) -> Page:
        return run(reader.read_steps(max_records), sleep=self._pause)

    def _go_to(self, position: Position) -> None:
        self._reader.close()
        self._reader = self._reader_at(position)

    def _reader_at(self, position: Position) -> ShardReader:
        return shard_reader(
            self._service, self.shard_id, position, pace=self._pace, clock=self._clock
        )

    def _waited_too_long(self, now: float) -> bool:
        since = self._waited_since
        return since is not None and now - since >= self._settings.patience_seconds
