"""Reading one shard from a position on: iterators, expiry, refusals and pace are handled here."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from shardline.core.positions import (
    LATEST,
    SHARD_END,
    TRIM_HORIZON,
    After,
    AtTime,
    Latest,
    Position,
)
from shardline.core.shards import SequenceNumber
from shardline.errors import InvalidPosition, IteratorExpired, Throttled
from shardline.services.clock import boot_seconds
from shardline.services.pace import UNPACED, ShardPace
from shardline.services.steps import Pause, Steps, run
from shardline.services.wire.columns import TIME, time_column

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.services.port import Page, StreamService

logger = logging.getLogger(__name__)

_MARGIN_WHERE_TIMES_ARE_FOUND: Final = timedelta(seconds=1)
"""Kinesis stamps records by the millisecond, on many machines whose clocks differ a little."""

_MARGIN_WHERE_TIMES_ARE_FILTERED: Final = timedelta(minutes=1)
"""DynamoDB may cut creation times down to the whole minute."""


class ShardCursor:
    """A place in one shard that moves forward as it is read. Opens its iterator at the first read.

    Reads follow the `pace`; without one, only a refusal makes the cursor wait. After nothing but
    refusals for `patience_seconds` the last one is raised.

    A cursor at `After` with a sub-sequence delivers that record again: the caller decides which of
    its user records to skip. Not for use by several threads at once.
    """

    def __init__(
        self,
        service: StreamService,
        shard_id: str,
        position: Position,
        *,
        pace: ShardPace | None = None,
        patience_seconds: float = 120.0,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self.shard_id: Final = shard_id
        self._service = service
        self._position = position
        self._pace = pace or ShardPace(UNPACED)
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._reopen_at = position
        self._not_before: datetime | None = None
        self._iterator: str | None = None
        self._opening_began: float | None = None

    @property
    def position(self) -> Position:
        """Where the next read starts: another cursor made there continues without loss.

        `LATEST` becomes a time with the first page that holds no record, since nothing else marks
        that place; a cursor made from that may repeat records of the seconds before.
        """
        return self._position

    @property
    def ended(self) -> bool:
        """True once everything in a closed shard has been read; it stays true."""
        return self._position == SHARD_END

    def read(self, max_records: int) -> Page:
        """Read the next page in this thread: see `read_steps`."""
        return run(self.read_steps(max_records))

    def read_steps(self, max_records: int) -> Steps[Page]:
        """Read the next page, which may be empty. An iterator that expired is opened again."""
        if self.ended:
            raise InvalidPosition(f"{self.shard_id} was read to its end: nothing is left to read")
        page = yield from self._paced_read(max_records)
        if page.records.num_rows:
            last = page.records.column("sequenceNumber")[page.records.num_rows - 1].as_py()
            self._reopen_at = After(SequenceNumber(last))
        elif isinstance(self._reopen_at, Latest):
            self._reopen_at = self._pinned(page)
        self._iterator = page.next_iterator
        page = self._from_time_on(page)
        if page.next_iterator is None:
            self._position = SHARD_END
        elif self._not_before is None:
            self._position = self._reopen_at
        return page

    def close(self) -> None:
        """No-op: a service holds nothing for an iterator."""

    def _paced_read(self, max_records: int) -> Steps[Page]:
        pace, refused_since = self._pace, None
        while True:
            wait = pace.wait_seconds(self._clock())
            if wait > 0:
                yield Pause(wait)
                continue
            if self._iterator is None:
                yield from self._open()
            now = self._clock()
            limit = min(max_records, pace.page_records(now))
            pace.sent(now, limit)
            try:
                page: Page = yield partial(self._service.read, self._iterator or "", limit)
            except Throttled:
                now = self._clock()
                pace.refused(now)
                refused_since = now if refused_since is None else refused_since
                if now - refused_since > self._patience_seconds:
                    raise
            except IteratorExpired:
                yield from self._replace_expired()
            else:
                rows = page.records.num_rows
                size = sum(column.nbytes for column in page.records.columns[:2]) if rows else 0
                pace.received(self._clock(), rows, size, page.behind_ms)
                return page

    def _replace_expired(self) -> Steps[None]:
        if isinstance(self._reopen_at, Latest):
            # No page ever came back. One is needed to learn the service's clock.
            iterator = yield partial(self._service.open, self.shard_id, LATEST)
            page = yield partial(self._service.read, iterator, 1)
            self._reopen_at = self._pinned(page)
        logger.info("%s: iterator expired; opening another at %s", self.shard_id, self._reopen_at)
        self._iterator = None

    def _open(self) -> Steps[None]:
        self._opening_began = self._opening_began or self._clock()
        position = self._reopen_at
        if isinstance(position, AtTime) and not self._service.finds_times:
            self._not_before = position.time
            position = TRIM_HORIZON
        self._iterator = yield partial(self._service.open, self.shard_id, position)

    def _pinned(self, page: Page) -> AtTime:
        """Return a time before which nothing unread can have arrived, though LATEST found nothing.

        Kinesis: the answer's clock, less how far the page lies behind the tip. Both services: less
        the time since opening, for an empty page proves nothing about what came meanwhile, and
        less a margin for the stamps on records.
        """
        margin = _MARGIN_WHERE_TIMES_ARE_FOUND
        if not self._service.finds_times:
            margin = _MARGIN_WHERE_TIMES_ARE_FILTERED
        behind = timedelta(milliseconds=page.behind_ms or 0)
        since_opening = timedelta(seconds=self._clock() - (self._opening_began or 0))
        return AtTime(page.service_time - behind - since_opening - margin)

    def _from_time_on(self, page: Page) -> Page:
        """Drop records until the first one that is not before the time looked for.

        Only until then: after it the shard's order rules, whatever the stamps say. Until then the
        cursor's position stays the time, because no record's number means "and look on".
        """
        if self._not_before is None or page.records.num_rows == 0:
            return page
        late_enough = pc.greater_equal(time_column(page.records), pa.scalar(self._not_before, TIME))
        first = pc.index(late_enough, True).as_py()
        if first == -1:
            return replace(page, records=page.records.slice(page.records.num_rows))
        self._not_before = None
        return replace(page, records=page.records.slice(first))
