"""Reads the items of a table in segments: the one place that scans, for every kind of snapshot.

The order of a snapshot is the same for streams, consumers and DataFrames. First the stream's shards
are pinned at a place before the scan; then the table is read, consistently; then the stream from
the pins on. An item that changed meanwhile comes once more as a change, so that nothing is missed
and the newest image wins.
"""

from __future__ import annotations

import binascii
import time
from base64 import b64decode
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shardline.errors import ServiceError, Throttled
from shardline.services.service_clock import ServiceClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shardline.services.calls import Calls

_PATIENCE_SECONDS: Final = 120.0
_REFUSED_SECONDS: Final = 0.25


class AnswerNotWhole(ServiceError):
    """An answer lacks what it must have: the call is made again."""


class ScanPage(NamedTuple):
    """One page of a segment."""

    items: list[dict[str, Any]]
    keys: list[dict[str, Any]]
    """The key attributes of each item."""
    rest: list[str] | None
    """The key after which the next page starts, as texts; None after the last page."""
    units: float
    """The read capacity units that the page took."""
    read_at: datetime
    """The service's time."""


class TableSize(NamedTuple):
    """How large a table is. The service counts every six hours or so."""

    items: int
    size_bytes: int


class TableScan:
    """The pages of one table, read in a number of segments side by side."""

    def __init__(self, calls: Calls, table: str, segments: int) -> None:
        self.table: Final = table
        self.segments: Final = segments
        self._calls = calls
        self._clock = ServiceClock()

    def page(self, segment: int, after: list[str] | None, limit: int | None = None) -> ScanPage:
        """Read the page of a segment after a key; None: the first one.

        Raises `Throttled` if the table has no capacity left for it now, and `AnswerNotWhole` if the
        answer has no items at all.
        """
        response, read_at = self._clock.ask(partial(self._scan, segment, after, limit))
        items: list[dict[str, Any]] | None = response.get("Items")
        if items is None:
            raise AnswerNotWhole(f"dynamodb://{self.table}: an answer without items: trying again")
        rest = response.get("LastEvaluatedKey")
        return ScanPage(
            items,
            [{name: item[name] for name in self._key_kinds} for item in items],
            None if rest is None else self.values_of(rest),
            response.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0),
            read_at,
        )

    def patient_page(
        self,
        segment: int,
        after: list[str] | None,
        pace: ScanPace,
        sleep: Callable[[float], None] = time.sleep,
    ) -> ScanPage:
        """Read a page at a pace, again while it is refused for its rate or is not whole."""
        refused = 0.0
        while True:
            sleep(pace.wait_seconds())
            try:
                page = self.page(segment, after)
            except (Throttled, AnswerNotWhole):
                if refused >= _PATIENCE_SECONDS:
                    raise
                refused += _REFUSED_SECONDS
                sleep(_REFUSED_SECONDS)
            else:
                pace.spent(page.units)
                return page

    def values_of(self, item: dict[str, Any]) -> list[str]:
        """Return the values of an item's key as texts, the hash key first."""
        values = [item[name][kind] for name, kind in self._key_kinds.items()]
        return [
            binascii.b2a_base64(value, newline=False).decode()
            if isinstance(value, bytes)
            else value
            for value in values
        ]

    def size(self) -> TableSize:
        """Return how large the table was when the service last counted."""
        return TableSize(self._table.get("ItemCount", 0), self._table.get("TableSizeBytes", 0))

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()

    @cached_property
    def _table(self) -> dict[str, Any]:
        described: dict[str, Any] = self._calls.call("describe_table", TableName=self.table)[
            "Table"
        ]
        return described

    @cached_property
    def _key_kinds(self) -> dict[str, str]:
        """The key attributes, the hash key first, with their kinds: S, N or B."""
        kinds = {
            each["AttributeName"]: each["AttributeType"]
            for each in self._table["AttributeDefinitions"]
        }
        names = [each["AttributeName"] for each in self._table["KeySchema"]]
        return {name: kinds[name] for name in names}

    def _scan(self, segment: int, after: list[str] | None, limit: int | None) -> dict[str, Any]:
        request: dict[str, Any] = {
            "TableName": self.table,
            "ConsistentRead": True,
            "ReturnConsumedCapacity": "TOTAL",
            "Segment": segment,
            "TotalSegments": self.segments,
        }
        if limit is not None:
            request["Limit"] = limit
        if after is not None:
            request["ExclusiveStartKey"] = {
                name: {kind: b64decode(value, validate=True) if kind == "B" else value}
                for (name, kind), value in zip(self._key_kinds.items(), after, strict=True)
            }
        return self._calls.call("scan", retry_throttled=False, **request)


class ScanPace:
    """Keeps what is read of a table below a number of read capacity units a second."""

    def __init__(
        self, units_per_second: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Without a number there is no limit."""
        self._units_per_second = units_per_second
        self._clock = clock
        self._since: float | None = None
        self._units = 0.0

    def wait_seconds(self) -> float:
        """Return how long to wait before the next page."""
        if self._units_per_second is None or self._since is None:
            return 0.0
        ahead = self._units / self._units_per_second - (self._clock() - self._since)
        return max(0.0, ahead)

    def spent(self, units: float) -> None:
        """Count what a page took."""
        if self._since is None:
            self._since = self._clock()
        self._units += units
