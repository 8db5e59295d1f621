"""Reads one planned range of one shard: exactly its records, in order, or an error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from shardline.core.gaps import place_text
from shardline.core.positions import TRIM_HORIZON, After, Position, TrimHorizon
from shardline.core.shards import SequenceNumber
from shardline.errors import GapError, PositionTrimmed, ServiceError
from shardline.services.clock import boot_seconds
from shardline.services.cursor import ShardCursor
from shardline.services.pace import FULL_PAGE_RECORDS, Quota, ShardPace
from shardline.services.steps import Pause
from shardline.services.wire.columns import time_column

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.core.offsets import Range
    from shardline.core.shards import HashRange
    from shardline.services.port import Page, StreamService
    from shardline.services.steps import Steps
    from shardline.spark.executor.read_ahead import ReadAhead

CALLS_PER_SECOND: Final = 4.0
"""The reads of a shard that a task makes in a second, of the five that it gives: planning and
other readers need some too."""

_RECORDS_PER_SECOND: Final = 1_000
_SPARE_RECORDS: Final = 50
_ALIKE_RECORDS: Final = 500
"""So many may have come in one call, and have the same time as the last one of the range."""
_STALL_SECONDS: Final = 300.0
"""How long to read on without a record, and without coming nearer to the tip."""

_AT_TIP_SECONDS: Final = 30.0
"""How long to ask again when the service calls a place its tip before the record that was planned:
another of its machines may answer better."""

_AGAIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class ShardRange:
    """One range of one shard, as it travels to an executor."""

    shard_id: str
    range: Range
    inline: bytes | None = None
    """Its records, if the plan has read them already; None: read them."""
    has_gap: bool = False
    """The driver knows, and has written down, that records of it are lost."""
    kept_until: datetime | None = None
    """Until this service time, no record after `range.after` can have expired; None: not known."""
    begins_at: datetime | None = None
    """The earliest time at which a record of the range can have arrived."""
    is_last: bool = False
    """The service has little or nothing after the range, so that whole pages are asked for."""
    spent_bytes: int = 0
    """How much of the shard's quota planning has used up just now."""
    hash_range: HashRange | None = None
    """The hash keys of the shard, where the service publishes them."""
    parents: tuple[str, ...] = ()
    """The shards that come before it, in a bounded read in total order."""


class RangeReader:
    """Reads a range in steps. `emit` takes each piece; `full` tells that the taker is behind."""

    def __init__(
        self,
        service: StreamService,
        item: ShardRange,
        emit: Callable[[str, pa.RecordBatch], None],
        *,
        full: Callable[[], bool] = lambda: False,
        pace: ShardPace | None = None,
        cache: ReadAhead | None = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._service = service
        self._item = item
        self._emit = emit
        self._full = full
        self._pace = pace or ShardPace(Quota(CALLS_PER_SECOND))
        self._cache = cache
        self._clock = clock
        self._checked = item.has_gap
        """Whether the beginning of the range was found where it was planned."""
        self._from_horizon = False
        self._wanted = _expected_records(item)

    def read_steps(self) -> Steps[None]:
        """Read all records after `after`, up to and including `upto`."""
        cursor, reached = self._open()
        if reached:
            return
        progress_at, behind_ms = self._clock(), None
        while not cursor.ended:
            while self._full():
                yield Pause(_AGAIN_SECONDS / 10)
            try:
                page = yield from cursor.read_steps(self._wanted)
            except PositionTrimmed as error:
                cursor = yield from self._at_horizon(error)
                continue
            yield from self._check_beginning(page)
            if self._deliver(page.records, cursor):
                return
            now = self._clock()
            nearer = behind_ms is None or (page.behind_ms or 0) < behind_ms
            if page.records.num_rows or (page.behind_ms and nearer):
                progress_at = now
            behind_ms = page.behind_ms
            if not page.records.num_rows and not cursor.ended:
                self._consider(page, now - progress_at)
                if self._item.has_gap and (yield from self._is_over(page)):
                    return
                if page.behind_ms == 0:
                    yield Pause(_AGAIN_SECONDS)
        if isinstance(self._item.range.upto, After) and not self._item.has_gap:
            raise GapError(_missing(self._item, "the shard ended before it"))

    # --- the beginning ------------------------------------------------------------------------

    def _open(self) -> tuple[ShardCursor, bool]:
        """Return the cursor to read with, and true if what was read before is enough."""
        item = self._item
        kept = self._cache.take(item.shard_id, item.range.after) if self._cache else None
        if kept is None:
            return self._cursor(item.range.after), False
        return kept.cursor, self._deliver(kept.records, kept.cursor)

    def _cursor(self, position: Position) -> ShardCursor:
        self._pace.moved()
        return ShardCursor(
            self._service, self._item.shard_id, position, pace=self._pace, clock=self._clock
        )

    def _check_beginning(self, page: Page) -> Steps[None]:
        """Make sure that the range is still whole where it begins, at the first page."""
        if self._checked:
            return
        item, after = self._item, self._item.range.after
        if isinstance(after, After) and after.sub_sequence == -1:
            if page.records.num_rows:
                self._checked = True
                if _number(page.records, 0) != after.sequence:
                    raise GapError(_missing_first(item))
            return
        self._checked = True
        if item.kept_until is None or page.service_time < item.kept_until:
            return
        if isinstance(after, After) and not (yield from self._is_kept(after)):
            raise GapError(_missing_first(item))

    def _is_kept(self, after: After) -> Steps[bool]:
        """Ask whether the record before the range is still there: then nothing after it is lost."""
        cursor = self._cursor(After(after.sequence, 0))
        while True:
            try:
                page = yield from cursor.read_steps(1)
            except PositionTrimmed:
                return False
            if page.records.num_rows:
                return _number(page.records, 0) == after.sequence
            if page.next_iterator is None or not page.behind_ms:
                return page.behind_ms is None and page.next_iterator is not None

    def _at_horizon(self, error: PositionTrimmed) -> Steps[ShardCursor]:
        """Return a cursor at the horizon, if that loses nothing or the loss is on record."""
        item, after = self._item, self._item.range.after
        if isinstance(after, TrimHorizon):
            yield Pause(_AGAIN_SECONDS)  # it moved between opening and reading
            return self._cursor(TRIM_HORIZON)
        names_first = isinstance(after, After) and after.sub_sequence == -1
        if not item.has_gap and (names_first or item.kept_until is None):
            raise GapError(_trimmed(item, error)) from error
        # The record before the range expired; its own records only after `kept_until`.
        self._from_horizon = True
        return self._cursor(TRIM_HORIZON)

    # --- the end ------------------------------------------------------------------------------

    def _deliver(self, records: pa.RecordBatch, cursor: ShardCursor) -> bool:
        """Emit the records up to the end of the range; return true if that was reached."""
        if self._from_horizon:
            records = _after(records, self._item.range.after)
        wanted, rest, reached = _cut(records, self._item)
        if wanted.num_rows:
            self._emit(self._item.shard_id, wanted)
            self._wanted = _left_records(wanted, self._item)
        if reached and self._cache is not None:
            self._cache.keep(self._item.range.upto, cursor, rest)
        return reached

    def _is_over(self, page: Page) -> Steps[bool]:
        """Return true if nothing is left of a range that has a gap, after an empty page."""
        upto = self._item.range.upto
        if page.behind_ms is not None or not isinstance(upto, After):
            return page.behind_ms == 0
        return not (yield from self._is_kept(upto))  # DynamoDB Streams names no tip

    def _consider(self, page: Page, silent_seconds: float) -> None:
        """Raise if nothing but empty pages came for too long."""
        item = self._item
        if item.has_gap:
            return
        if page.behind_ms == 0 and silent_seconds > _AT_TIP_SECONDS:
            raise GapError(_missing(item, "the service has nothing at it or after it"))
        if silent_seconds > _STALL_SECONDS:
            raise ServiceError(_missing(item, f"only empty pages came for {_STALL_SECONDS:.0f} s"))


def _cut(records: pa.RecordBatch, item: ShardRange) -> tuple[pa.RecordBatch, pa.RecordBatch, bool]:
    """Return the records up to the range's end, those after it, and whether it was reached."""
    upto = item.range.upto
    nothing = pa.RecordBatch.from_pylist([], schema=records.schema)  # a slice would hold the page
    if not isinstance(upto, After) or not records.num_rows:
        return records, nothing, False
    if _number(records, records.num_rows - 1) < upto.sequence:
        return records, nothing, False
    numbers = records.column("sequenceNumber")
    row = pc.index(numbers, upto.sequence.text).as_py()
    if row == -1:
        if not item.has_gap:
            raise GapError(_missing(item, "newer records came instead"))
        row = sum(SequenceNumber(number) < upto.sequence for number in numbers.to_pylist()) - 1
    rest = records.slice(row + 1)
    return records.slice(0, row + 1), rest if rest.num_rows else nothing, True


def _after(records: pa.RecordBatch, position: Position) -> pa.RecordBatch:
    """Return the records after a position, where reading began before it."""
    if not isinstance(position, After):
        return records
    numbers = map(SequenceNumber, records.column("sequenceNumber").to_pylist())
    return records.slice(sum(number <= position.sequence for number in numbers))


def _number(records: pa.RecordBatch, row: int) -> SequenceNumber:
    return SequenceNumber(records.column("sequenceNumber")[row].as_py())


def _expected_records(item: ShardRange) -> int:
    """Return how many records the range can hold, as far as times tell."""
    begins, ends = item.begins_at, item.range.as_of
    if item.is_last or begins is None or ends is None or not isinstance(item.range.upto, After):
        return FULL_PAGE_RECORDS
    return _most_records(ends - begins)


def _left_records(records: pa.RecordBatch, item: ShardRange) -> int:
    """Return how many records are left in the range, if they lie as close as those just read."""
    ends = item.range.as_of
    if item.is_last or ends is None or not isinstance(item.range.upto, After):
        return FULL_PAGE_RECORDS
    times = time_column(records)
    first, last = times[0].as_py(), times[records.num_rows - 1].as_py()
    if last <= first:
        return _most_records(ends - last)
    left = records.num_rows * ((ends - last) / (last - first))
    return min(FULL_PAGE_RECORDS, int(left * 1.1) + _ALIKE_RECORDS)


def _most_records(span: timedelta) -> int:
    """Return how many records a shard can take in a time, or a page can hold."""
    seconds = max(0.0, span / timedelta(seconds=1))
    return min(FULL_PAGE_RECORDS, int(seconds * _RECORDS_PER_SECOND) + _SPARE_RECORDS)


def _trimmed(item: ShardRange, error: PositionTrimmed) -> str:
    return (
        f"gap in {item.shard_id} after {place_text(item.range.after)}: {error}. Restart the query: "
        "the driver then decides by failOnDataLoss"
    )


def _missing(item: ShardRange, what: str) -> str:
    return (
        f"gap in {item.shard_id} after {place_text(item.range.after)}: the batch ends at "
        f"{place_text(item.range.upto)}, which was there when it was planned, but {what}. Restart "
        "the query: the driver then decides by failOnDataLoss"
    )


def _missing_first(item: ShardRange) -> str:
    return (
        f"gap in {item.shard_id} after {place_text(item.range.after)}: records expired after the "
        "batch was planned and before it was read. Restart the query: the driver then decides by "
        "failOnDataLoss"
    )
