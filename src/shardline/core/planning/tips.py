"""Where the next range of one shard can end: which query finds a record that certainly exists.

Spark wants the end of a batch before anything of it is read, and no service names its newest
record. `Tip` decides, for one shard, which query comes next and what an answer means. It makes no
calls: `next_query` returns a query, and `answered` takes what it gave.

- Near the tip, read on after the planned end: the records travel with the task, so that nothing is
  read twice.
- Where more has arrived than may travel, read one record after a bookmark (a LATEST iterator that
  was opened a moment ago). An empty bookmark says nothing about what lies before it.
- Behind, read one record at a later time. A time with nothing after it bounds the search.
- In a closed shard, the last range ends at the end of the shard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shardline.core.gaps import as_of_after_page
from shardline.core.planning.limits import BURST_SECONDS, BYTES_PER_SECOND, RECORDS_PER_SECOND
from shardline.core.planning.queries import Answer, Kind, Place, Query
from shardline.core.planning.time_search import TimeSearch
from shardline.core.positions import SHARD_END, After, Position, ShardEnd

if TYPE_CHECKING:
    from datetime import datetime

    from shardline.core.planning.limits import Bounds

NEAR: Final = timedelta(seconds=5)
"""Closer to the present than this, a shard counts as near its tip."""

SAMPLE_RECORDS: Final = 20
"""How many records the first read in an unknown shard asks for: a few kilobytes."""

NEAR_RECORDS: Final = 200
"""How many records a read in a shard of unknown traffic asks for: what they span in time is read
sooner than searched through."""

_TWICE_BYTES: Final = 32_000
"""How much of a range may be read here and by a task again."""

INLINE_RECORDS: Final = 2_000
"""How many records a read asks for at most that are to travel."""

FORWARD_RECORDS: Final = 1_000
"""How many records a read on to the tip asks for, where no other way is left."""

AHEAD_RECORDS: Final = 5_000
"""How far to read ahead of the executors where the service finds no times."""

_SMALLEST_WINDOW: Final = timedelta(milliseconds=500)
_SMALLEST_STEP: Final = timedelta(milliseconds=40)
"""A search by time goes no closer: what lies within it is read."""

_WINDOWS_PER_SAMPLE: Final = 8
"""So many ranges are found by time alone before a few records are read, to see their number."""

_MISSES: Final = 2
"""After so many times without progress, in a shard whose stamps go back, read on instead."""


class Taken(NamedTuple):
    """A planned range of one shard."""

    start: Position
    end: Place
    inline: tuple[Any, ...] | None
    """Its records, if they were read and travel with the task."""
    is_last: bool
    """The service said that nothing lies long after it: whoever reads on reads little too much."""


@dataclass
class Tip:
    """The search for the end of one shard's next range. Losing it costs calls, never records."""

    shard_id: str
    base: Place
    """Where the next range begins: the end of the last planned one."""
    reached: Place = field(init=False)
    """Where the search stands: the best end so far, or `base`."""
    begins: Position | None = None
    """The place before the first record of the range, where `base` is no record."""
    count: int | None = 0
    """How many records lie between `base` and `reached`; None: not counted."""
    count_bytes: int = 0
    cut: bool = False
    """The next record is too big for this range."""
    inline: list[Any] = field(default_factory=list)
    """The records up to `reached`, if all were read and are few."""
    carries: bool = True
    """Whether `inline` holds all records up to `reached`."""
    busy: bool = False
    """More had arrived than may travel with a task: use bookmarks while that is so."""
    records_per_second: float | None = None
    """How close records lay where some were read; None: not known, or not lately."""
    at_once: int = 0
    """How many records a page held that all arrived at one time: how close they lie is not known,
    and the next ones are expected a second later."""
    record_bytes: float = 1_000.0
    """What a record weighed where some were read."""
    windows: int = 0
    """How many ranges were found by time since records were read."""
    at_tip: bool = False
    """The last answer said that nothing lies after `reached`, as far as that counts."""
    rest: tuple[Answer, Bounds] | None = None
    """What lies between `reached`, which was found by time, and the tip: the next range."""
    search: TimeSearch = field(default_factory=TimeSearch)

    def __post_init__(self) -> None:
        self.reached = self.base

    @property
    def found(self) -> bool:
        """Return true if the next range holds records, or ends the shard."""
        return self.reached.position != self.base.position

    def is_settled(self, now: datetime) -> bool:
        """Return true if the search cannot make the range much longer."""
        if self.at_tip or self.busy or isinstance(self.reached.position, ShardEnd):
            return True
        if not isinstance(self.base.position, After) and self.begins is None:
            return False
        if now - self.reached.as_of <= NEAR:
            return True
        return self.found and self.count is None and not self.search.is_bounded

    def next_query(self, bounds: Bounds, *, bookmark: bool) -> Query | None:
        """Return the next query; None if the range cannot or need not become longer."""
        if isinstance(self.reached.position, ShardEnd) or self._is_full(bounds):
            return None
        if self.at_tip and bounds.until is not None:
            return None
        if not isinstance(self.base.position, After) and self.begins is None:
            return self._forward(bounds, SAMPLE_RECORDS)
        if self.search.again is not None:
            return self.search.again
        lag = bounds.now - self.reached.as_of
        if self.busy and self._is_for_bookmarks(bounds):
            kind = Kind.BOOKMARK if bookmark else Kind.SET_BOOKMARK
            return Query(self.shard_id, kind, self.reached.position)
        if bounds.finds_times and lag > NEAR and self.windows >= _WINDOWS_PER_SAMPLE:
            return self._forward(bounds, SAMPLE_RECORDS)
        by_time = bounds.finds_times and lag > NEAR and not self._is_sparse(bounds)
        if by_time and self.search.misses < _MISSES:
            at = self.search.next_time(self.base, self.reached, bounds, self._smallest_step())
            if at is not None:
                if self._may_travel(bounds) and self.count_bytes > _TWICE_BYTES:
                    return None  # what was read travels; the rest belongs to the next range
                return Query(
                    self.shard_id, Kind.TIME, self.reached.position, at=at, until=bounds.until
                )
            if self._window_is_full(bounds):
                return None
        if self._ends_by_time(bounds):
            if self.rest is not None or not self.search.is_bounded:
                return None
            # Read the rest now: soon the tasks have used up the quota of the shard.
            after = Tip(self.shard_id, self.reached, record_bytes=self.record_bytes)
            return after._forward(bounds, INLINE_RECORDS)
        if lag <= NEAR and self._may_travel(bounds):
            return self._forward(bounds, INLINE_RECORDS)
        unknown = bounds.finds_times and self.count is not None and not self.records_per_second
        return self._forward(bounds, NEAR_RECORDS if unknown else FORWARD_RECORDS)

    def settle(self, bounds: Bounds) -> None:
        """End the shard without a query, if it is closed and its rest is within the bounds."""
        if not bounds.closed or bounds.until is not None:
            return
        if isinstance(self.reached.position, ShardEnd):
            return
        if not isinstance(self.base.position, After) and self.begins is None:
            return  # the range must name its first record
        window = bounds.window
        if window is None or (bounds.finds_times and bounds.now - self.base.as_of <= window):
            self.end_shard()

    def answered(self, answer: Answer, bounds: Bounds) -> None:
        """Take in what a query gave."""
        if answer.query.after != self.reached.position:
            return  # the search has moved on meanwhile
        self.search.again = None
        match answer.query.kind:
            case Kind.FORWARD if self._ends_by_time(bounds):
                self._read_rest(answer, bounds)
            case Kind.FORWARD:
                self._read_forward(answer, bounds)
            case Kind.TIME:
                self._read_one(answer, bounds)
            case Kind.BOOKMARK:
                self._read_bookmark(answer)
            case Kind.SET_BOOKMARK:
                pass

    def end_shard(self) -> None:
        """Extend the range to the end of the shard, which is closed."""
        self.reached = Place(SHARD_END, self.reached.as_of)
        self.count = None
        self._carry_nothing()

    def most_records(self, bounds: Bounds) -> int:
        """Return how many records the range can hold at most."""
        if self.count is not None:
            return self.count
        ends = isinstance(self.reached.position, ShardEnd)
        span = (bounds.now if ends else self.reached.as_of) - self.base.as_of
        seconds = max(0.0, span.total_seconds()) + BURST_SECONDS
        bound = int(seconds * RECORDS_PER_SECOND) + 1
        return bound if bounds.max_records is None else min(bound, bounds.max_records)

    def take(self) -> Taken:
        """Return the range, and go on searching after it."""
        taken = Taken(
            self.begins or self.base.position,
            self.reached,
            tuple(self.inline) if self.carries else None,
            self.search.is_bounded,
        )
        self.windows += self.count is None
        self.base, self.begins = self.reached, None
        self.count, self.count_bytes, self.cut = 0, 0, False
        self.inline, self.carries = [], True
        self.search = self.search.after(self.base.as_of)
        rest, self.rest = self.rest, None
        if rest is not None:
            self.answered(*rest)
        return taken

    # --- answers ------------------------------------------------------------------------------

    def _read_forward(self, answer: Answer, bounds: Bounds) -> None:
        self.cut = answer.cut
        if answer.cut and not answer.rows:
            return
        if answer.rows:
            self._measure(answer)
            self._extend(answer)
            if self.begins is None and not isinstance(self.base.position, After):
                self.begins = answer.first
            if self.count is not None:
                self.count += answer.rows
            self.count_bytes += answer.size_bytes
            self._carry(answer, bounds)
        full = answer.rows >= answer.query.max_records and not answer.beyond
        self._move_as_of(answer, bounds)
        self._note_end(answer, bounds)
        if self.at_tip:
            self.busy = False
        elif self._is_inline_full(bounds) or ((full or self.cut) and not self.carries):
            self.cut |= self.carries  # what was read travels, and nothing else
            self.busy = bounds.now - self.reached.as_of <= NEAR
        elif not answer.rows and not answer.ended:
            self.search.again = answer.query if answer.behind_ms is not None else None

    def _read_rest(self, answer: Answer, bounds: Bounds) -> None:
        """Keep what lies after a range that was found by time, if it is all that there is."""
        if answer.at_tip or answer.ended:
            self.rest = (answer, bounds)
        else:
            self._extend(answer)  # more than a shard takes in so little time: tasks read it again

    def _read_one(self, answer: Answer, bounds: Bounds) -> None:
        if answer.rows:
            if self._is_progress(answer.last):
                self._note_silence(answer)
                self._extend(answer)
                self.count = None
                self._carry_nothing()
                self.search.found_one()
            else:
                self.search.misses += 1
        elif answer.ended or answer.behind_ms == 0 or answer.beyond:
            self.search.nothing_at(answer.query.at)
            if answer.ended and bounds.closed and self._rest_fits(answer.query, bounds):
                self.end_shard()
        else:
            self.search.again = answer.query  # an empty page before the tip: read on

    def _read_bookmark(self, answer: Answer) -> None:
        if answer.expired:
            self.busy = False  # it says nothing: read forward, or by time
        elif answer.rows and self._is_progress(answer.last):
            self._extend(answer)
            self.count = None
            self._carry_nothing()
        elif answer.ended or not answer.behind_ms:
            # Nothing came after it. What lies before it is found by reading on, to the tip.
            self.busy = False

    def _measure(self, answer: Answer) -> None:
        """Note how close the records of a page lie."""
        self.windows = 0
        self.record_bytes = max(1.0, answer.size_bytes / answer.rows)
        if answer.first_at is not None and answer.last_at is not None:
            seconds = (answer.last_at - answer.first_at).total_seconds()
            self.records_per_second = answer.rows / seconds if seconds > 0 else None
            self.at_once = answer.rows if seconds == 0 else 0

    def _note_silence(self, answer: Answer) -> None:
        """Note how close records lie if none arrived for long after what was written at once."""
        at, found_at, before = answer.query.at, answer.last_at, self.reached.as_of
        if not self.at_once or at is None or found_at is None:
            return
        if found_at - max(at, before) > NEAR:
            self.records_per_second = self.at_once / (found_at - before).total_seconds()
            self.at_once = 0

    def _extend(self, answer: Answer) -> None:
        if answer.last is not None:
            last_at = answer.last_at or self.reached.as_of
            self.reached = Place(answer.last, max(self.reached.as_of, last_at))
            self.at_tip = False

    def _is_progress(self, found: After | None) -> bool:
        position = self.reached.position
        if found is None:
            return False
        return not isinstance(position, After) or found.sequence > position.sequence

    def _move_as_of(self, answer: Answer, bounds: Bounds) -> None:
        as_of = as_of_after_page(
            self.reached.as_of,
            last_arrival=answer.last_at,
            behind_ms=None if answer.beyond or answer.cut else answer.behind_ms,
            service_time=answer.service_time,
            closed=bounds.closed or answer.ended,
        )
        as_of = max(as_of, self.search.nothing_before(answer) or as_of)
        self.reached = Place(self.reached.position, as_of)
        if not self.found:
            self.base = self.reached

    def _note_end(self, answer: Answer, bounds: Bounds) -> None:
        if answer.ended and not answer.beyond:
            if bounds.closed:
                self.reached = Place(SHARD_END, self.reached.as_of)
            else:
                # An end is believed when a listing shows the shard closed. With a target, its
                # children count too: they are in that listing.
                self.at_tip = bounds.until is None
            return
        silent = self.search.nothing_before(answer) is not None and not bounds.closed
        told_late_enough = bounds.until is None or answer.service_time >= bounds.until
        tip = (answer.at_tip and not bounds.closed) or silent
        self.at_tip = answer.beyond or (tip and told_late_enough)

    def _carry(self, answer: Answer, bounds: Bounds) -> None:
        if self.carries and self.count_bytes <= bounds.inline_bytes:
            self.inline.append(answer.records)
        else:
            self._carry_nothing()

    def _carry_nothing(self) -> None:
        self.inline, self.carries = [], False

    # --- bounds -------------------------------------------------------------------------------

    def _forward(self, bounds: Bounds, most: int) -> Query:
        left = most
        if bounds.max_records is not None and self.count is not None:
            left = bounds.max_records - self.count
        elif bounds.window is not None and self.count is None:
            span = bounds.window - (self.reached.as_of - self.base.as_of)
            left = int(span.total_seconds() * RECORDS_PER_SECOND)
        max_records, max_bytes = max(1, min(most, left)), bounds.max_bytes
        if self._may_travel(bounds):
            room = int((bounds.inline_bytes - self.count_bytes) / self.record_bytes)
            max_records = min(max_records, max(SAMPLE_RECORDS, room))
            max_bytes = min(bounds.inline_bytes, max_bytes or bounds.inline_bytes)
        return Query(
            self.shard_id,
            Kind.FORWARD,
            self.reached.position,
            max_records,
            until=bounds.until,
            max_bytes=None if max_bytes is None else max(0, max_bytes - self.count_bytes),
            at_least=0 if self.found else 1,
        )

    def _ends_by_time(self, bounds: Bounds) -> bool:
        """Return true if the range was found by time, and need not reach a target."""
        return self.count is None and bounds.finds_times and bounds.until is None

    def _may_travel(self, bounds: Bounds) -> bool:
        """Return true if the range is to hold no more than may travel, if that is all there is."""
        bounded = bounds.finds_times and bounds.until is None and bounds.inline_bytes > 0
        return bounded and self.carries and self.count is not None

    def _is_inline_full(self, bounds: Bounds) -> bool:
        """Return true if hardly another record can travel with the range."""
        room = bounds.inline_bytes - self.count_bytes - SAMPLE_RECORDS * self.record_bytes
        return self._may_travel(bounds) and room < 0

    def _is_for_bookmarks(self, bounds: Bounds) -> bool:
        """Return true if more has arrived than may travel, at the rate that was seen last."""
        window, rate = bounds.window, float(BYTES_PER_SECOND)
        if bounds.until is not None or bounds.closed:
            return False
        if window is not None and bounds.now - self.base.as_of >= window:
            return False
        if self.records_per_second is not None:
            rate = min(rate, self.records_per_second * self.record_bytes)
        arrived = (bounds.now - self.reached.as_of).total_seconds() * rate
        return max(arrived, self.record_bytes) > bounds.inline_bytes

    def _smallest_step(self) -> timedelta:
        """Return the span of time whose records are better read than searched through."""
        if not self.records_per_second:
            return _SMALLEST_STEP
        step = timedelta(seconds=NEAR_RECORDS / self.records_per_second)
        return min(max(step, _SMALLEST_STEP), NEAR)

    def _is_sparse(self, bounds: Bounds) -> bool:
        """Return true if a window that cannot exceed the limits would hold few records.

        Then it is better to read on and count: as many records as the limits allow.
        """
        window = bounds.window
        if window is None or self.count is None or bounds.now - self.base.as_of <= window:
            return False
        rate = self.at_once if self.records_per_second is None else self.records_per_second
        expected = rate * window.total_seconds()
        return expected < min(bounds.max_records or FORWARD_RECORDS, FORWARD_RECORDS) / 2

    def _is_full(self, bounds: Bounds) -> bool:
        if not self.found:
            return False
        if self.cut:
            return True
        if self.count is None:
            return self._window_is_full(bounds)
        sparse = not bounds.finds_times or self._is_sparse(bounds)
        if sparse and bounds.until is None and self.count >= AHEAD_RECORDS:
            return True
        return bounds.max_records is not None and self.count >= bounds.max_records

    def _window_is_full(self, bounds: Bounds) -> bool:
        window = bounds.window
        if window is None or not self.found:
            return False
        return self.reached.as_of - self.base.as_of >= window - _SMALLEST_WINDOW

    def _rest_fits(self, query: Query, bounds: Bounds) -> bool:
        window = bounds.window
        return window is None or query.at is None or query.at - self.base.as_of <= window
