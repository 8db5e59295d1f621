"""A table as it is, read in parallel segments: the first part of a stream that starts there."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from shardline.errors import InvalidPosition
from shardline.services.table_scan import ScanPace, ScanPage, TableScan

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.tables.shapes import Item


class SnapshotItem(NamedTuple):
    """One item of the table, and the service's time when it was read."""

    item: Item
    keys: Item
    read_at: datetime


@dataclass(slots=True)
class _Segment:
    """One part of the table, read page by page in its order."""

    number: int
    after: list[str] | None = None
    """The key of the last item that was delivered, as texts."""
    read_to: list[str] | None = None
    """Where the next page starts; None at the beginning."""
    exhausted: bool = False
    """True if the last page was read."""
    items: deque[SnapshotItem] = field(default_factory=deque)
    pending: Future[ScanPage] | None = None


class TableSnapshot:
    """Reads every item of a table once. For one thread; pages are read in others."""

    def __init__(
        self,
        scan: TableScan,
        *,
        units_per_second: float | None = None,
        state: dict[str, Any] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the table with a scan, from its beginning or where `state` says."""
        self._scan = scan
        self._pace = ScanPace(units_per_second)
        self._sleep = sleep
        self._segments = [_Segment(number) for number in range(scan.segments)]
        if state is not None:
            self._segments = _restore(state)
        self._pool = ThreadPoolExecutor(len(self._segments), "shardline-snapshot")

    def peek(self) -> SnapshotItem | None:
        """Return the next item, which stays the next one; None after the last."""
        while True:
            segment = self._ready()
            if segment is not None:
                return segment.items[0]
            for each in self._segments:
                if each.pending is None and not each.exhausted:
                    each.pending = self._pool.submit(
                        self._scan.patient_page,
                        each.number,
                        each.read_to,
                        self._pace,
                        self._sleep,
                    )
            reads = [each.pending for each in self._segments if each.pending is not None]
            if not reads:
                return None
            wait(reads, return_when=FIRST_COMPLETED)
            for each in self._segments:
                if each.pending is not None and each.pending.done():
                    page, each.pending = each.pending, None
                    self._add(each, page.result())

    def take(self) -> None:
        """Count the item that `peek` returned as delivered."""
        segment = self._ready()
        if segment is not None:
            segment.after = self._scan.values_of(segment.items.popleft().keys)

    def state(self) -> dict[str, Any]:
        """Return what was delivered so far, as plain JSON."""
        return {
            "segments": [
                {"after": each.after, "done": each.exhausted and not each.items}
                for each in self._segments
            ]
        }

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ready(self) -> _Segment | None:
        return next((segment for segment in self._segments if segment.items), None)

    def _add(self, segment: _Segment, page: ScanPage) -> None:
        segment.items.extend(
            SnapshotItem(item, keys, page.read_at)
            for item, keys in zip(page.items, page.keys, strict=True)
        )
        segment.read_to = page.rest
        segment.exhausted = page.rest is None


def segments_in(state: dict[str, Any]) -> int:
    """Return in how many segments a table is read, by the state of its snapshot."""
    return len(_restore(state))


def _restore(state: dict[str, Any]) -> list[_Segment]:
    try:
        return [
            _Segment(number, after, after, bool(each["done"]))
            for number, each in enumerate(state["segments"])
            for after in [_texts(each["after"])]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidPosition(f"this token was damaged: {error!r:.80}") from error


def _texts(key: Any) -> list[str] | None:
    if key is not None and not (isinstance(key, list) and all(isinstance(v, str) for v in key)):
        raise ValueError("not a key")
    return key
