"""Carries out what a planner asks for: each instruction as steps that return an event."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from shardline.core.gaps import Evidence
from shardline.core.planning.events import (
    AskTime,
    Bookmarked,
    Check,
    Checked,
    Describe,
    Described,
    Event,
    Instruction,
    List,
    Listed,
    Pin,
    Pinned,
    Refused,
    Told,
)
from shardline.core.planning.queries import Answer, Kind, Place, Query
from shardline.core.positions import LATEST, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.errors import IteratorExpired, PositionTrimmed, ShardNotFound, Throttled
from shardline.services.clock import boot_seconds
from shardline.services.cursor import ShardCursor
from shardline.services.kept_records import kept_steps, position_at
from shardline.services.pace import Quota, ShardPace
from shardline.services.steps import Pause, Steps
from shardline.services.wire.columns import TIME, time_column

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.services.port import Page, StreamService

_QUOTA: Final = Quota(burst_calls=5)
"""Planning reads at its full pace only while no task of the query reads the shard."""

_QUOTA_WITHOUT_TIMES: Final = Quota(calls_per_second=10.0, page_records=1_000)
"""DynamoDB Streams names no number of calls."""

_BOOKMARKS: Final = 2
"""The newest bookmark lies nearest to the tip, but nothing may have come after it yet."""

_PIN_RECORDS: Final = 1_000
_REFUSED_SECONDS: Final = 0.25
_BEFORE: Final = timedelta(seconds=1)


@dataclass
class _ShardCalls:
    """What is kept of one shard between calls. Losing it costs calls, never records."""

    pace: ShardPace
    forward: ShardCursor | None = None
    probe: tuple[Query, ShardCursor] | None = None
    bookmarks: deque[str] = field(default_factory=lambda: deque(maxlen=_BOOKMARKS))
    """LATEST iterators, the oldest first."""


class Orders:
    """Makes the calls of one planner. Different shards may be asked about at the same time."""

    def __init__(self, service: StreamService, clock: Callable[[], float] = boot_seconds) -> None:
        self._service = service
        self._clock = clock
        self._shards: dict[str, _ShardCalls] = {}

    def carry_out(self, instruction: Instruction) -> Steps[Event]:
        """Make the calls of an instruction; return what came of it."""
        service = self._service
        match instruction:
            case List():
                return Listed((yield from self._patiently(service.list_shards)))
            case Describe():
                described = yield from self._patiently(service.describe)
                return Described(
                    described.name,
                    described.arn,
                    whole_ms(described.created_at),
                    timedelta(seconds=described.retention_seconds),
                    described.service_time,
                )
            case AskTime(shard_id):
                return Told((yield from self._time(shard_id)))
            case Pin(shard_id):
                return Pinned(shard_id, (yield from self._pin(shard_id)))
            case Check(shard_id, None):
                found = yield from self._patiently(partial(service.has_shard, shard_id))
                evidence = Evidence.KEPT if found else Evidence.GONE
                return Checked(shard_id, None, evidence)
            case Check(shard_id, position) if position is not None:
                evidence = yield from self.kept(shard_id, position)
                return Checked(shard_id, position, evidence)
            case Query():
                return (yield from self._query(instruction))
        raise AssertionError(f"not an instruction: {instruction}")

    def kept(self, shard_id: str, position: Position) -> Steps[Evidence]:
        """Ask whether the record at a position is still there: then nothing after it is lost."""
        if not isinstance(position, After):
            return Evidence.NONE
        at_record = position_at(position)
        cursor = ShardCursor(self._service, shard_id, at_record, clock=self._clock)
        return (yield from kept_steps(cursor, position))

    def take_spent(self, shard_id: str) -> int:
        """Return how much of a shard's quota planning has used up since the last call."""
        calls = self._shards.get(shard_id)
        return calls.pace.take_spent(self._clock()) if calls is not None else 0

    def _calls_of(self, shard_id: str) -> _ShardCalls:
        calls = self._shards.get(shard_id)
        if calls is None:
            quota = _QUOTA if self._service.finds_times else _QUOTA_WITHOUT_TIMES
            calls = self._shards[shard_id] = _ShardCalls(ShardPace(quota))
        return calls

    # --- queries ------------------------------------------------------------------------------

    def _query(self, query: Query) -> Steps[Event]:
        calls = self._calls_of(query.shard_id)
        try:
            match query.kind:
                case Kind.SET_BOOKMARK:
                    iterator = yield from self._patiently(
                        partial(self._service.open, query.shard_id, LATEST)
                    )
                    calls.bookmarks.append(iterator)
                    return Bookmarked(query.shard_id)
                case Kind.BOOKMARK:
                    return (yield from self._read_bookmark(query, calls))
                case Kind.TIME:
                    return (yield from self._read_at_time(query, calls))
                case Kind.FORWARD:
                    return (yield from self._read_forward(query, calls))
        except PositionTrimmed:
            calls.forward = calls.probe = None
            return Refused(query, Evidence.TRIMMED)
        except ShardNotFound:
            calls.forward = calls.probe = None
            return Refused(query, Evidence.GONE)

    def _read_bookmark(self, query: Query, calls: _ShardCalls) -> Steps[Event]:
        """Read one record after the newest bookmark; after the one before, if nothing came yet."""
        unread: deque[str] = deque()
        answer = None
        while calls.bookmarks:
            try:
                iterator = calls.bookmarks.pop()
                page = yield from self._patiently(partial(self._service.read, iterator, 1))
            except IteratorExpired:
                continue
            answer = _answer(query, page)
            if answer.rows or answer.ended or answer.behind_ms != 0:
                break
            unread.appendleft(page.next_iterator)
        calls.bookmarks = deque(unread, maxlen=_BOOKMARKS)
        if answer is None:
            time = yield from self._time(query.shard_id)
            return Answer(query, time, expired=True)
        return answer

    def _read_at_time(self, query: Query, calls: _ShardCalls) -> Steps[Event]:
        if calls.probe is None or calls.probe[0] != query:
            at: Position = query.after if query.at is None else AtTime(query.at)
            calls.probe = (query, self._cursor(query.shard_id, at, calls))
        page = yield from calls.probe[1].read_steps(1)
        if page.records.num_rows or page.next_iterator is None:
            calls.probe = None
        return _answer(query, page)

    def _read_forward(self, query: Query, calls: _ShardCalls) -> Steps[Event]:
        cursor = calls.forward
        if cursor is None or cursor.ended or cursor.position != query.after:
            cursor = calls.forward = self._cursor(query.shard_id, query.after, calls)
        page = yield from cursor.read_steps(query.max_records)
        answer = _answer(query, page)
        if answer.beyond or answer.cut:
            calls.forward = None  # it has read past what counts
        return answer

    def _cursor(self, shard_id: str, position: Position, calls: _ShardCalls) -> ShardCursor:
        return ShardCursor(self._service, shard_id, position, pace=calls.pace, clock=self._clock)

    # --- other calls --------------------------------------------------------------------------

    def _pin(self, shard_id: str) -> Steps[Place]:
        """Turn "latest" into a place that lasts: after the newest record, or at a time."""
        calls = self._calls_of(shard_id)
        bookmark = self._cursor(shard_id, LATEST, calls)
        page = yield from self._first_page(bookmark, 1)
        if page.records.num_rows:  # arrived since the bookmark was set
            return Place(_before(page.records), _time_of(page.records, 0))
        now = page.service_time
        if not self._service.finds_times:
            # The time may lie before records that are older than the start, never after newer
            # ones. The bookmark knows better, for as long as this process lives.
            calls.forward = bookmark
            return Place(bookmark.position, now)
        recent = self._cursor(shard_id, AtTime(now - _BEFORE), calls)
        page = yield from self._first_page(recent, _PIN_RECORDS)
        if page.records.num_rows:
            last = page.records.num_rows - 1
            return Place(_at(page.records, last), _time_of(page.records, last))
        return Place(AtTime(now), now)

    def _first_page(self, cursor: ShardCursor, max_records: int) -> Steps[Page]:
        """Read on until records come, the tip is reached, or the service does not tell."""
        while True:
            page = yield from cursor.read_steps(max_records)
            if page.records.num_rows or not page.behind_ms or page.next_iterator is None:
                return page

    def _time(self, shard_id: str) -> Steps[datetime]:
        cursor = ShardCursor(self._service, shard_id, LATEST, clock=self._clock)
        page: Page = yield from cursor.read_steps(1)
        return page.service_time

    def _patiently(self, call: Callable[[], Any]) -> Steps[Any]:
        """Make a call again while it is refused for its rate."""
        while True:
            try:
                return (yield call)
            except Throttled:
                yield Pause(_REFUSED_SECONDS)


def read_time(service: StreamService) -> datetime:
    """Return the service's time, by an empty read in a shard that it lists."""
    listed = service.list_shards()
    return ShardCursor(service, listed[-1].id, LATEST).read(1).service_time


def _answer(query: Query, page: Page) -> Answer:
    counted = _until(page.records, query.until)
    records = _within(counted, query.max_bytes, query.at_least)
    rows, cut = records.num_rows, records.num_rows < counted.num_rows
    return Answer(
        query,
        page.service_time,
        rows=rows,
        size_bytes=_size_bytes(records),
        first=_before(records) if rows else None,
        last=_at(records, rows - 1) if rows else None,
        first_at=_time_of(records, 0) if rows else None,
        last_at=_time_of(records, rows - 1) if rows else None,
        behind_ms=page.behind_ms,
        ended=page.next_iterator is None and not cut,
        beyond=counted.num_rows < page.records.num_rows and not cut,
        cut=cut,
        records=records if rows and query.kind is Kind.FORWARD else None,
    )


def _at(records: pa.RecordBatch, row: int) -> After:
    return After(SequenceNumber(records.column("sequenceNumber")[row].as_py()))


def _before(records: pa.RecordBatch) -> After:
    """Return the place before the first record: with a sub-sequence, a position opens at it."""
    return After(SequenceNumber(records.column("sequenceNumber")[0].as_py()), -1)


def _time_of(records: pa.RecordBatch, row: int) -> datetime:
    time: datetime = time_column(records)[row].as_py()
    return time


def _until(records: pa.RecordBatch, until: datetime | None) -> pa.RecordBatch:
    """Return the records before the first one that arrived after a time."""
    if until is None or not records.num_rows:
        return records
    import pyarrow.compute as pc  # takes long, and only a bounded read needs it

    too_late = pc.greater(time_column(records), pa.scalar(until, TIME))
    first = pc.index(too_late, True).as_py()
    return records if first == -1 else records.slice(0, first)


def _within(records: pa.RecordBatch, max_bytes: int | None, at_least: int) -> pa.RecordBatch:
    """Return as many of the first records as a size allows, but a few in any case."""
    if max_bytes is None or _size_bytes(records) <= max_bytes:
        return records
    least, most = min(at_least, records.num_rows), records.num_rows
    while least < most:  # the most rows that fit
        half = (least + most + 1) // 2
        least, most = (
            (half, most) if _size_bytes(records.slice(0, half)) <= max_bytes else (least, half - 1)
        )
    return records.slice(0, least)


def _size_bytes(records: pa.RecordBatch) -> int:
    return sum(column.nbytes for column in records.columns) if records.num_rows else 0


def whole_ms(time: datetime) -> datetime:
    """Return a time cut to its millisecond, as offsets keep times."""
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
