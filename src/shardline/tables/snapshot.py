"""A table as it is, read in parallel segments: the first part of a stream that starts there."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shardline.errors import InvalidPosition
from shardline.services.service_clock import ServiceClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.services.calls import Calls
    from shardline.tables.shapes import Item

DEFAULT_SEGMENTS: Final = 4


class SnapshotItem(NamedTuple):
    """One item of the table, and the service's time when it was read."""

    item: Item
    keys: Item
    read_at: datetime


@dataclass(slots=True)
class _Segment:
    """One part of the table, read page by page in its order."""

    number: int
    after: Item | None = None
    """The key of the last item that was delivered."""
    read_to: Item | None = None
    """Where the next page starts; None at the beginning."""
    exhausted: bool = False
    """True if the last page was read."""
    items: deque[SnapshotItem] = field(default_factory=deque)
    pending: Future[dict[str, Any]] | None = None


class TableSnapshot:
    """Reads every item of a table once. For one thread; pages are read in others."""

    def __init__(
        self,
        calls: Calls,
        table: str,
        key_names: tuple[str, ...],
        *,
        segments: int = DEFAULT_SEGMENTS,
        units_per_second: float | None = None,
        state: dict[str, Any] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = calls
        self._table = table
        self._key_names = key_names
        self._units_per_second = units_per_second
        self._units = 0.0
        self._sleep = sleep
        self._clock = clock
        self._started = clock()
        self._service_clock = ServiceClock()
        self._segments = [_Segment(number) for number in range(segments)]
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
                    each.pending = self._pool.submit(self._read_page, each.number, each.read_to)
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
            segment.after = segment.items.popleft().keys

    def state(self) -> dict[str, Any]:
        """Return what was delivered so far, as plain JSON."""
        return {
            "segments": [
                {"after": _to_json(each.after), "done": each.exhausted and not each.items}
                for each in self._segments
            ]
        }

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ready(self) -> _Segment | None:
        return next((segment for segment in self._segments if segment.items), None)

    def _add(self, segment: _Segment, page: dict[str, Any]) -> None:
        read_at = self._service_clock.time_of(page) or self._service_clock.now()
        for item in page["Items"]:
            keys = {name: item[name] for name in self._key_names}
            segment.items.append(SnapshotItem(item, keys, read_at))
        segment.read_to = page.get("LastEvaluatedKey")
        segment.exhausted = segment.read_to is None

    def _read_page(self, number: int, after: Item | None) -> dict[str, Any]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if len(self._segments) > 1:
            request |= {"Segment": number, "TotalSegments": len(self._segments)}
        if after is not None:
            request["ExclusiveStartKey"] = after
        self._keep_pace()
        page = self._calls.call("scan", **request)
        self._units += page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
        return page

    def _keep_pace(self) -> None:
        if self._units_per_second is not None:
            ahead = self._units / self._units_per_second - (self._clock() - self._started)
            if ahead > 0:
                self._sleep(ahead)


def _to_json(key: Item | None) -> Any:
    """Return a key as plain JSON: a client gives bytes, which JSON has not."""
    if key is None:
        return None
    return {
        name: {"B": b64encode(value["B"]).decode()} if "B" in value else value
        for name, value in key.items()
    }


def _from_json(key: Any) -> Item | None:
    if key is None:
        return None
    return {
        name: {"B": b64decode(value["B"], validate=True)} if "B" in value else value
        for name, value in key.items()
    }


def _restore(state: dict[str, Any]) -> list[_Segment]:
    try:
        return [
            _Segment(number, after, after, bool(each["done"]))
            for number, each in enumerate(state["segments"])
            for after in [_from_json(each["after"])]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidPosition(f"this token was damaged: {error!r:.80}") from error
