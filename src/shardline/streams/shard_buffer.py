"""The buffer of one shard: records read and not yet delivered, and when to read more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shardline.core.gaps import Evidence, Gap, gap_at, may_have_expired
from shardline.core.merging import Backlog, rising
from shardline.core.positions import LATEST, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.core.silence import Silence
from shardline.errors import PositionTrimmed
from shardline.services.aggregation import split_aggregated
from shardline.services.cursor import ShardCursor
from shardline.services.kept_records import kept_steps, position_at
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

_NEAR_TIP_SECONDS: Final = 60.0
"""DynamoDB does not report the tip. For so long after a shard was last seen without more to give,
an empty page of it holds up no other shard. That decides about the order in which unrelated shards
are merged, about nothing else."""

_FULL_PAGE: Final = 1_000
"""The most records of one page of DynamoDB Streams: a shard that gives so many is behind."""

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

    def quota_of(self, service: StreamService) -> Quota:
        """Return what a shard of this service may be read at."""
        return self.quota or (KINESIS_QUOTA if service.finds_times else DYNAMODB_QUOTA)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The result of one read of a shard."""

    records: list[Any]
    times: NDArray[np.int64]
    size_bytes: int
    ended: bool
    at_tip: bool | None
    """Whether the service says that nothing lies after the page; None if it does not say."""
    read_up_to: datetime | None
    """Everything that arrived before this service time has been read; None if not known."""
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
        self.read_up_to: datetime | None = None
        """Everything that arrived before this service time has been read; None if not known."""
        self.told_tip = False
        """True if the service said that nothing lay after the last page."""
        self._at_tip = False
        self._near_tip_at = now if place.position == LATEST else None
        """When the shard last had nothing more to give, as far as the service shows it."""
        self._service = service
        self._retention = retention
        self._settings = settings
        self._pace = ShardPace(settings.quota_of(service))
        self._clock = clock
        self._pause = pause
        self._reader = self._reader_at(place.position)
        self._read_as_of = place.as_of
        self._silence = Silence()
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
        read_up_to = self._read_up_to(position, page)
        if read_up_to is not None:
            self._read_as_of = max(read_up_to, self._read_as_of or read_up_to)
        elif len(times):
            last = datetime.fromtimestamp(int(times[-1]) / 1e6, UTC)
            self._read_as_of = max(last, self._read_as_of or last)
        records = records_of(self.shard_id, rows, times)
        return FetchedPage(
            records,
            times,
            page.records.nbytes,
            self._reader.ended,
            None if page.behind_ms is None else page.behind_ms == 0 and not self._reader.ended,
            read_up_to,
            page.service_time,
            gap,
        )

    def _read_up_to(self, position: Position, page: Page) -> datetime | None:
        """Return a time before which nothing unread arrived, if the service's answer shows one."""
        if self._reader.ended:
            return None  # its children may hold records that arrived before this answer
        if page.behind_ms is not None:
            return page.service_time if page.behind_ms == 0 else None
        pinned = self._reader.position
        if position == LATEST and isinstance(pinned, AtTime):
            return pinned.time  # the iterator was opened after everything that came before
        silent = self._silence.after_page(page.records.num_rows, page.service_time)
        if silent is None and self._read_as_of is None and not page.records.num_rows:
            # Nothing is known of this place yet. What arrives from this first look on is owed: if
            # nobody reads it before it expires, that is a gap.
            return page.service_time
        return silent

    def _may_be_too_late(self, page: Page) -> bool:
        # Kinesis reads on at its horizon, without an error, when a position has expired.
        return self._read_as_of is not None and may_have_expired(
            self._read_as_of, now=page.service_time, retention=self._retention
        )

    def _still_kept(self, position: Position) -> bool:
        """Return true if the last record read is still kept: then so is everything after it."""
        if not isinstance(position, After):
            return False
        probe = ShardCursor(
            self._service,
            self.shard_id,
            position_at(position),
            pace=self._pace,
            clock=self._clock,
        )
        return run(kept_steps(probe, position), sleep=self._pause) is Evidence.KEPT

    # --- the buffer ---------------------------------------------------------------------------

    def add(self, page: FetchedPage, now: float) -> None:
        """Add a fetched page to the buffer."""
        self.renewed_at = now
        self.ended = page.ended
        self.service_time = page.service_time
        self.read_up_to = page.read_up_to
        self.told_tip = bool(page.at_tip)
        self._at_tip = self._is_at_tip(page, now)
        self._poll_at = now + self._settings.poll_seconds if self._at_tip else now
        if page.records:
            self._record_bytes = page.size_bytes / len(page.records)
            if self.held_by_iterator:
                # The first record after "latest" is a lasting position: just before it.
                first = SequenceNumber(page.records[0].sequence_number)
                self.place.position = After(first, -1)
            self._records = self._records + page.records if self._records else page.records
            self._times = rising(np.concatenate((self._times, page.times)))
        if page.records or self._at_tip:
            self._waited_since = None
        elif self._waited_too_long(now):
            self._poll_at = now + self._settings.poll_seconds

    def pin(self, position: Position) -> None:
        """Continue at a position that outlives the iterator."""
        self.place.position = position
        self._go_to(position)

    def close(self) -> None:
        """End the subscription of this shard's reader, if it has one."""
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
    def opened_after(self) -> datetime:
        """A service time before which nothing unread arrived, though only an iterator holds it."""
        pinned = self._reader.position
        return pinned.time if isinstance(pinned, AtTime) else self.service_time - self._retention

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

    def give_up_waiting(self, now: float) -> None:
        """End the time that other shards wait for this one."""
        self._waited_since = now - self._settings.patience_seconds

    @property
    def at_tip(self) -> bool:
        """True if everything that the last read found at the tip of the shard was taken."""
        return self._at_tip and self.empty and not self.ended

    def backlog(self, now: float) -> Backlog:
        """Return the records to merge, and whether other shards must wait for more of them."""
        # At its tip a shard holds up nobody until its next read is due.
        at_tip = self._at_tip and (self.seconds_until_due(now) or 0) > 0
        return Backlog(
            self.place.clock, self._times, self.ended or not (at_tip or self._waited_too_long(now))
        )

    def _is_at_tip(self, page: FetchedPage, now: float) -> bool:
        """Return true if the shard has nothing more to give now, as far as the service shows it."""
        if page.at_tip is not None or page.ended:
            return bool(page.at_tip)
        if len(page.records) >= _FULL_PAGE:
            self._near_tip_at = None
        near = self._near_tip_at is not None and now - self._near_tip_at <= _NEAR_TIP_SECONDS
        if near or (not page.records and self._waited_too_long(now)):
            self._near_tip_at = now
            return not page.records
        return False

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
