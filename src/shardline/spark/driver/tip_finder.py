"""Looks ahead on the driver for records that certainly exist, so that a batch can end at them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from shardline.core.planning import Look, Sight, Standpoint, behind, probe_time
from shardline.core.positions import LATEST, SHARD_END, TRIM_HORIZON, After, AtTime, Position
from shardline.core.shards import SequenceNumber
from shardline.services.cursor import ShardCursor
from shardline.services.wire.columns import TIME, time_column
from shardline.spark.driver.inline_records import Carried, most_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.core.offsets import Range
    from shardline.services.port import Page, StreamService

_SECONDS_PER_CALL: Final = 0.3
"""The service allows five reads a second and shard, to all readers of a stream together: looks, and
the executors' reads of what was found and not carried to them, leave a third to others."""

_EMPTY_PAGES: Final = 4
"""So many in a row: look elsewhere, or later. An empty page proves nothing about a shard."""

_PAGES_BEFORE_A_TIME: Final = 20
"""Where times are looked for by reading, pages before the time come out empty."""

_FORWARD_BYTES: Final = 4_000_000
"""The most that one look reads ahead, a page more or less."""

_SOON_READ_BYTES: Final = 1_000_000
"""Half a second of what the service gives of a shard: as long as two or three probes take."""

_PROBES: Final = 2
_HALVINGS: Final = 20
_PROBES_PER_SAMPLE: Final = 8
"""A window bounds the records in it, but may hold few: so often look how dense they lie."""
_MOST_RECORDS: Final = 10_000
_CLOCK_MARGIN: Final = timedelta(seconds=1)


@dataclass(slots=True)
class _Tip:
    """What is remembered of a shard between looks. Losing it costs calls, never records."""

    at: Position
    cursor: ShardCursor
    as_of: datetime | None = None
    behind: bool = False
    """Whether the last look read as far ahead as it may, and more lay behind."""
    records_per_second: float = math.inf
    """As found by the last look that read ahead."""
    probed: int = 0
    """How many windows were taken since then."""
    nothing_from: datetime | None = None
    record_bytes: float = 1_000
    calls: int = 0
    next_look_at: float = 0
    carried: Carried | None = None
    """What the last look read, if it is little and all that it found."""

    def begin(self) -> None:
        self.calls, self.carried = 0, None

    @property
    def all_calls(self) -> int:
        """How many calls the last look costs, together with the executor's for what it found."""
        return self.calls + (self.carried is None)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look found, and whether everything that counts lies before it."""

    sight: Sight
    at_tip: bool


class Lookout:
    """Keeps a cursor at the tip of each shard. Different shards may be looked at concurrently."""

    def __init__(
        self, service: StreamService, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._monotonic = monotonic
        self._tips: dict[str, _Tip] = {}
        self._now: datetime | None = None

    def now(self, any_shard_id: str) -> datetime:
        """Return the service's clock as last told; ask it if it never was."""
        if self._now is None:
            self._read(ShardCursor(self._service, any_shard_id, TRIM_HORIZON), 1)
        if self._now is None:
            raise AssertionError("every page tells the service's time")
        return self._now

    def next_look_at(self, shard_id: str) -> float:
        """Return when, on the monotonic clock, the service's quota allows another look."""
        tip = self._tips.get(shard_id)
        return 0.0 if tip is None else tip.next_look_at

    def freshest(self, shard_id: str, standpoint: Standpoint) -> Standpoint:
        """Return a standpoint with what was learnt of it since it was written down."""
        tip = self._tips.get(shard_id)
        if tip is None or tip.as_of is None or tip.at != standpoint.position:
            return standpoint
        return replace(standpoint, as_of=tip.as_of)

    def forget(self, shard_ids: set[str]) -> None:
        """Let go of the cursors of all shards but these."""
        for shard_id in self._tips.keys() - shard_ids:
            del self._tips[shard_id]

    def look(self, look: Look, *, until: datetime | None = None) -> Seen:
        """Look for the end of a shard's next range. What arrived behind `until` does not count."""
        tip = self._tips.get(look.shard_id)
        if tip is None or tip.at != look.standpoint.position or tip.cursor.ended:
            tip = _Tip(look.standpoint.position, self._cursor_at(look))
            self._tips[look.shard_id] = tip
        tip.begin()
        try:
            seen = self._look(look, tip, until)
        finally:
            tip.next_look_at = self._monotonic() + _SECONDS_PER_CALL * tip.all_calls
        tip.as_of = seen.sight.as_of
        return seen

    def take_carried(self, shard_id: str, item: Range) -> Carried | None:
        """Return the records of a range, once, if the last look has read exactly these."""
        tip = self._tips.get(shard_id)
        if tip is None or tip.carried is None or not tip.carried.of(item):
            return None
        carried, tip.carried = tip.carried, None
        return carried

    def _look(self, look: Look, tip: _Tip, until: datetime | None) -> Seen:
        """Read ahead first, for most shards are near their tip; probe where that was not enough."""
        if not self._service.finds_times:
            most = None if look.window is None else look.most_records
            return self._read_forward(look, tip, until, most)
        if look.window is None:
            return self._look_to_the_tip(look, tip, until)
        expected = tip.records_per_second * look.window.total_seconds()
        if tip.behind and expected > look.forward_records and tip.probed < _PROBES_PER_SAMPLE:
            found = self._probe(look, tip, until)
            if found is not None:
                tip.probed += 1
                tip.nothing_from = None  # more may arrive there before the next look
                return Seen(found, at_tip=False)
        return self._read_forward(look, tip, until, look.forward_records)

    def _look_to_the_tip(self, look: Look, tip: _Tip, until: datetime | None) -> Seen:
        if look.closed and until is None:
            return Seen(Sight(SHARD_END, look.standpoint.as_of), at_tip=False)
        seen = self._read_forward(look, tip, until, look.forward_records)
        if not tip.behind:
            return seen
        nearest, nothing_from = seen.sight, tip.nothing_from
        for _ in range(_HALVINGS):
            if _is_soon_read(nearest, tip):
                break
            further = self._probe(replace(look, standpoint=_at(nearest)), tip, until)
            if further is not None:
                nearest = further
            elif tip.nothing_from == nothing_from:
                break  # too little time is left to halve
            nothing_from = tip.nothing_from
        tip.nothing_from = None
        return self._read_forward(replace(look, standpoint=_at(nearest)), tip, until, None)

    def pin(self, shard_id: str) -> Standpoint:
        """Turn "latest" into a position that stays: behind the newest record, or a time."""
        bookmark = ShardCursor(self._service, shard_id, LATEST)
        first = self._read(bookmark, 1)
        if first.records.num_rows:  # arrived since the bookmark was set
            return Standpoint(_before(first.records), None)
        now = first.service_time
        if not self._service.finds_times:
            # The time may lie before records that are older than the start, never behind newer
            # ones. The bookmark knows better, for as long as this process lives.
            self._tips[shard_id] = _Tip(bookmark.position, bookmark)
            return Standpoint(bookmark.position, None)
        recent = ShardCursor(self._service, shard_id, AtTime(now - _CLOCK_MARGIN))
        for _ in range(_EMPTY_PAGES):
            page = self._read(recent, _MOST_RECORDS)
            if page.records.num_rows:
                return Standpoint(*_last(page.records))
            if page.behind_ms == 0 or page.next_iterator is None:
                break
        return Standpoint(AtTime(now), now)

    def still_kept(self, shard_id: str, position: Position) -> bool:
        """Ask whether the record at a position is still there: then nothing behind it is gone."""
        if not isinstance(position, After):
            return False
        at_record = After(position.sequence, 0)  # with a sub-sequence, opening means *at* it
        cursor = ShardCursor(self._service, shard_id, at_record)
        for _ in range(_EMPTY_PAGES):
            page = self._read(cursor, 1)
            if page.records.num_rows:
                first = page.records.column("sequenceNumber")[0].as_py()
                return SequenceNumber(first) == position.sequence
            if page.next_iterator is None:
                return False
        return False

    def _cursor_at(self, look: Look) -> ShardCursor:
        return ShardCursor(self._service, look.shard_id, look.standpoint.position)

    def _probe(self, look: Look, tip: _Tip, until: datetime | None) -> Sight | None:
        for _ in range(_PROBES):
            now = self.now(look.shard_id)
            at = probe_time(look, now=now, nothing_from=tip.nothing_from, until=until)
            if at is None:
                return None
            cursor = ShardCursor(self._service, look.shard_id, AtTime(at))
            found = self._first_behind(cursor, tip)
            if (
                found is not None
                and behind(look.standpoint.position, found.upto)
                and (until is None or found.as_of is None or found.as_of <= until)
            ):
                tip.cursor, tip.at = cursor, found.upto
                return found
            tip.nothing_from = at if tip.nothing_from is None else min(at, tip.nothing_from)
        return None

    def _first_behind(self, cursor: ShardCursor, tip: _Tip) -> Sight | None:
        for _ in range(_EMPTY_PAGES):
            page = self._page(cursor, tip, 1)
            if page.records.num_rows:
                return Sight(*_last(page.records))
            if page.behind_ms == 0 or cursor.ended:
                break
        return None

    def _read_forward(
        self, look: Look, tip: _Tip, until: datetime | None, most: int | None
    ) -> Seen:
        """Read ahead to the tip or the end, by at most so many records; None: however many."""
        pages: list[pa.RecordBatch] = []
        seen = self._read_pages(look, tip, until, most, pages)
        if sum(page.nbytes for page in pages) <= most_bytes(len(self._tips)):
            after = seen.sight.after or look.standpoint.position
            tip.carried = Carried(after, seen.sight.upto, tuple(pages))
        return seen

    def _read_pages(
        self,
        look: Look,
        tip: _Tip,
        until: datetime | None,
        most: int | None,
        pages: list[pa.RecordBatch],
    ) -> Seen:
        sight = Sight(look.standpoint.position, look.standpoint.as_of)
        began_at = look.standpoint.as_of
        searching = isinstance(sight.upto, AtTime)
        tip.behind = False
        count = read_bytes = empty = 0
        while most is None or (count < most and read_bytes < _FORWARD_BYTES):
            asked = _MOST_RECORDS
            if most is not None:
                affordable = int((_FORWARD_BYTES - read_bytes) / tip.record_bytes)
                asked = max(1, min(most - count, affordable))
            page = self._page(tip.cursor, tip, asked)
            records = _until(page.records, until)
            if records.num_rows:
                began_at = began_at or time_column(records)[0].as_py()
                begins = _before(records) if searching and count == 0 else sight.after
                sight = Sight(*_last(records), begins)
                tip.at = sight.upto
                pages.append(records)
                count += records.num_rows
                read_bytes += records.nbytes
                tip.record_bytes = max(1.0, records.nbytes / records.num_rows)
                empty = 0
            if records.num_rows < page.records.num_rows:  # the rest does not count: not read
                tip.cursor = ShardCursor(self._service, look.shard_id, sight.upto)
                return Seen(sight, at_tip=True)
            if tip.cursor.ended:
                return Seen(replace(sight, upto=SHARD_END), at_tip=False)
            if page.behind_ms == 0 and page.records.num_rows < asked and not look.closed:
                seen_at = page.service_time - _CLOCK_MARGIN
                as_of = seen_at if sight.as_of is None else max(seen_at, sight.as_of)
                return Seen(replace(sight, as_of=as_of), at_tip=True)
            if not page.records.num_rows:
                empty += 1
                if empty >= self._empty_pages(page, tip, until, most):
                    # DynamoDB Streams never says that the tip is reached.
                    return Seen(sight, at_tip=page.behind_ms is None)
        tip.behind = self._service.finds_times
        tip.probed = 0
        tip.records_per_second = _rate(count, began_at, sight.as_of)
        return Seen(sight, at_tip=False)

    def _empty_pages(self, page: Page, tip: _Tip, until: datetime | None, most: int | None) -> int:
        """Return after how many empty pages to stop."""
        if isinstance(tip.cursor.position, AtTime) and not self._service.finds_times:
            return _PAGES_BEFORE_A_TIME
        whenever = page.behind_ms is None and until is None and most is not None
        return 1 if whenever else _EMPTY_PAGES

    def _page(self, cursor: ShardCursor, tip: _Tip, max_records: int) -> Page:
        tip.calls += 1
        return self._read(cursor, max_records)

    def _read(self, cursor: ShardCursor, max_records: int) -> Page:
        """Read one page, and note the service's clock.

        It is not run ahead between pages: a time in the service's future is an error there.
        """
        page = cursor.read(max_records)
        self._now = page.service_time if self._now is None else max(self._now, page.service_time)
        return page


def _at(sight: Sight) -> Standpoint:
    return Standpoint(sight.upto, sight.as_of)


def _is_soon_read(sight: Sight, tip: _Tip) -> bool:
    """Say whether what is left, as dense as before, is read as quickly as probed."""
    if sight.as_of is None or tip.nothing_from is None:
        return False
    left = (tip.nothing_from - sight.as_of).total_seconds()
    return left * tip.records_per_second * tip.record_bytes < _SOON_READ_BYTES


def _rate(count: int, start: datetime | None, end: datetime | None) -> float:
    if start is None or end is None or end <= start:
        return math.inf
    return count / (end - start).total_seconds()


def _last(records: pa.RecordBatch) -> tuple[Position, datetime]:
    row = records.num_rows - 1
    sequence = SequenceNumber(records.column("sequenceNumber")[row].as_py())
    return After(sequence), time_column(records)[row].as_py()


def _before(records: pa.RecordBatch) -> Position:
    """Return the position before the first record: with a sub-sequence, opening means *at* it."""
    return After(SequenceNumber(records.column("sequenceNumber")[0].as_py()), -1)


def _until(records: pa.RecordBatch, until: datetime | None) -> pa.RecordBatch:
    """Cut at the first record that arrived behind a time."""
    if until is None or not records.num_rows:
        return records
    too_late = pc.greater(time_column(records), pa.scalar(until, TIME))
    first = pc.index(too_late, True).as_py()
    return records if first == -1 else records.slice(0, first)
